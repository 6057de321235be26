// What has been told so far: networks, the directories that they are read from, and their rounds.
"use strict";
var amity = globalThis.amity || (globalThis.amity = {});

amity.Store = class {
  constructor() {
    this.cells = new Map();
    this.tracks = new Map();
    this.states = new Map();
    this.troubles = new Map();
    this.warnings = [];
  }

  take(message) {
    const kinds = { cell: this._cell, state: this._state, round: this._round, reset: this._reset, trouble: this._trouble };
    if (Object.hasOwn(kinds, message.t)) kinds[message.t].call(this, message);
  }

  _trouble(message) {
    this.warnings = message.said;
  }

  _cell(message) {
    this.cells.set(message.id, message);
    for (const [track, peer] of Object.entries(message.tracks)) {
      this._track(track).cell = message.id;
      this._track(track).peer = peer;
    }
  }

  _track(id) {
    if (!this.tracks.has(id)) this.tracks.set(id, { cell: "", peer: "", rounds: new Map(), last: -1 });
    return this.tracks.get(id);
  }

  _state(message) {
    this.states.set(message.cell, message);
    for (const [track, state] of Object.entries(message.tracks)) {
      if (state.trouble) this.troubles.set(track, state.trouble);
      else if (!this._track(track).damaged) this.troubles.delete(track);
    }
  }

  _round(message) {
    const track = this._track(message.track);
    if (message.trouble) {
      track.damaged = true;
      this.troubles.set(message.track, message.trouble);
    }
    if (message.round === undefined) return;
    if (message.round <= track.last) {  // cut back: what follows is told again
      for (const known of track.rounds.keys()) if (known > message.round) track.rounds.delete(known);
    }
    track.rounds.set(message.round, message);
    track.last = message.round;
  }

  _reset(message) {
    const track = this._track(message.track);
    track.rounds.clear();
    track.last = -1;
    track.damaged = false;
    this.troubles.delete(message.track);
  }

  tracksOf(id) {
    return [...this.tracks.values()].filter((track) => track.cell === id);
  }

  planned(id) {
    return Math.max(0, ...Object.values(this.states.get(id)?.tracks || {}).map((one) => one.rounds || 0));
  }

  // The newest round that has been told; `there`: that is on the disk.
  last(id) {
    return Math.max(-1, ...this.tracksOf(id).map((track) => track.last));
  }

  there(id) {
    const known = Object.values(this.states.get(id)?.tracks || {}).filter((one) => one.state !== "gone");
    return Math.max(this.last(id), ...known.map((one) => one.last ?? -1));
  }

  // running, waits, done, stopped, failed, gone, waiting: of several peers, how many are what.
  standing(id) {
    const words = Object.values(this.states.get(id)?.tracks || {});
    const counts = new Map();
    for (const one of words) counts.set(one.state, (counts.get(one.state) || 0) + 1);
    const why = words.find((one) => one.why)?.why || "";
    const said = [...counts].map(([word, count]) => (words.length > 1 ? `${count} ${word}` : word)).join(", ");
    return { said, why, states: counts };
  }

  // One round of a network: the mean over its directories.
  at(id, round) {
    const found = this.tracksOf(id).map((track) => track.rounds.get(round)).filter(Boolean);
    if (!found.length) return null;
    if (found.length === 1 && this.tracksOf(id).length === 1) return found[0];
    const values = found.filter((one) => one.spread).map((one) => one.spread[0]).sort((a, b) => a - b);
    const sum = (key) => found.reduce((total, one) => total + (one[key] || 0), 0);
    const known = (key) => (found.some((one) => one[key] !== undefined) ? sum(key) : undefined);
    const mean = values.reduce((a, b) => a + b, 0) / (values.length || 1);
    return {
      round, peers: found.length, in: sum("in") / found.length, out: sum("out") / found.length,
      spread: values.length ? [mean, values[0], values[0], values[values.length >> 1], values.at(-1), values.at(-1)] : undefined,
      harmed: known("harmed"), missing: known("missing"), net: {},
      epsilon: found.some((one) => one.epsilon !== undefined) ? Math.max(...found.map((one) => one.epsilon || 0)) : undefined,
    };
  }

  // Curves of a network: rounds, means, and the band over its peers.
  series(id) {
    const rounds = new Set();
    for (const track of this.tracksOf(id)) for (const round of track.rounds.keys()) rounds.add(round);
    const found = [...rounds].sort((a, b) => a - b).map((round) => this.at(id, round)).filter((one) => one?.spread);
    return found.map((one) => ({ round: one.round, mean: one.spread[0], low: one.spread[2], high: one.spread[4], bytes: one.in }));
  }

  groupsOf() {
    const groups = new Map();
    for (const cell of this.cells.values()) {
      const key = cell.group || cell.id;
      groups.set(key, [...(groups.get(key) || []), cell]);
    }
    return groups;
  }
};

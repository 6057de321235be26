// Real peers: links, certificates, rounds, what left this machine, and what happened.
"use strict";
var amity = globalThis.amity || (globalThis.amity = {});

amity.MembersView = class {
  constructor(home, choose) {
    this.home = home;
    this.choose = choose;
    this.title = amity.el("h2", {}, "The peers");
    this.body = amity.el("div", {});
    this.log = amity.el("ul", { class: "log", "data-scroll": "", tabindex: "0", "aria-label": "what happened" });
    home.append(this.title, this.body, amity.el("h3", {}, "What happened, the newest first"), this.log);
  }

  show(cell, state, store, metric) {
    const peers = Object.entries(state.peers || {});
    this.home.hidden = !peers.length;
    if (!peers.length) return;
    const running = Object.values(state.tracks).filter((one) => one.state === "running").length;
    amity.text(this.title, `The peers: ${running} of ${peers.length} running`);
    const lines = peers.map(([name, one]) => this.line(cell, state, store, metric, name, one));
    const head = [{ is: "peer", class: "w" }, { is: "state", class: "w" }, "round", metric?.name || "accuracy", { is: "linked with", class: "w" }, { is: "away or refused", class: "w" }, { is: "certificate", title: "days left" }, { is: "left this machine", class: "w", title: "answers that tell something of raw data, by kind: disclosed.jsonl" }];
    amity.fill(this.body, amity.table(head, lines, { label: "the peers" }), this.shown(peers, metric));
    const happened = peers.flatMap(([name, one]) => one.log.map((line) => ({ name, ...line })));
    happened.sort((a, b) => b.at - a.at);
    amity.fill(this.log, happened.slice(0, 60).map((one) => amity.el("li", { class: ["refused", "error"].includes(one.event) ? "bad" : null }, amity.happened(one, one.name))));
  }

  line(cell, state, store, metric, name, one) {
    const track = Object.entries(cell.tracks).find(([, peer]) => peer === name)?.[0];
    const now = state.tracks[track] || {}, rounds = store.tracks.get(track);
    const last = rounds?.rounds.get(rounds.last), status = one.status || {};
    const differs = Object.entries(status.differs || {}).map(([peer, why]) => `${peer}: ${why}`);
    const away = [...(status.away || []), ...(status.mute || []).map((peer) => `${peer} (silent)`), ...differs];
    const left = Object.entries(one.disclosed).map(([kind, count]) => `${kind} ${count}`).join(", ");
    const days = one.days === null ? "–" : one.days < 0 ? "ended" : `${Math.floor(one.days)} days`;
    const open = amity.el("button", { type: "button", "data-key": name, onclick: () => this.choose(name) }, name);
    return [{ is: open, class: "w" }, { is: `${now.state || "?"}${now.why ? ` (${now.why})` : ""}`, class: "w" }, `${rounds ? rounds.last + 1 : 0} of ${now.rounds || "?"}`, last?.spread ? amity.metric(last.spread[0], metric) : "–",
      { is: now.state === "running" || now.state === "waits" ? (status.present || []).join(", ") || "nobody" : "–", class: "words" }, { is: away.join("; ") || "–", class: "words" }, { is: days, class: one.days !== null && one.days < 14 ? "bad" : null }, { is: left || "nothing", class: "words" }];
  }

  // What other members publish to members (net.show=names).
  shown(peers, metric) {
    const newest = new Map();
    for (const [, one] of peers) for (const [name, told] of Object.entries(one.shown || {})) if (!newest.has(name) || newest.get(name).round < told.round) newest.set(name, told);
    for (const [name] of peers) newest.delete(name);
    if (!newest.size) return null;
    const lines = [...newest].sort().map(([name, told]) => [{ is: name, class: "w" }, String(told.round + 1), amity.metric(told.value ?? null, metric), { is: Object.entries(told.row || {}).map(([from, weight]) => `${from} ${amity.weight(weight)}`).join(", ") || "nobody", class: "words" }, amity.bytes(told.received)]);
    return [amity.el("h3", {}, "What other members show (net.show=names)"), amity.table([{ is: "member", class: "w" }, "round", metric?.name || "accuracy", { is: "took from", class: "w" }, "received"], lines, { label: "what other members show" })];
  }
};

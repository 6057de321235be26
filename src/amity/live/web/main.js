// The page: what is chosen, and which part shows what.
"use strict";
var amity = globalThis.amity || (globalThis.amity = {});

amity.Page = class {
  // `source` makes where everything comes from; in a report, that is the report itself.
  constructor(home, source, report = false) {
    this.store = new amity.Store();
    this.report = report;
    this.asked = report ? {} : Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    this.home = home;
    home.classList.add("live");
    const part = (name, wide) => {
      const section = amity.el("section", { id: name, class: wide ? "full" : null });
      home.append(section);
      return section;
    };
    this.over = part("overview", true);
    this.tableHome = part("comparison", true);
    this.rounds = new amity.RoundView(part("network"), (cell, round) => this.source.get("round", { cell: cell.id, round }), (peer) => this.open(peer), () => this.moved());
    this.curves = new amity.Curves(part("curves"));
    this.membersHome = part("members", true);
    this.peerHome = part("peer", true);
    this.table = new amity.TableView(this.tableHome, (label) => this.pickLabel(label));
    this.members = new amity.MembersView(this.membersHome, (peer) => this.open(peer));
    this.peers = new amity.PeerView(this.peerHome, () => this.open(""));
    this.choice = amity.el("select", { "aria-label": "which run", onchange: () => this.pick(this.choice.value) });
    this.tiles = amity.el("div", {});
    this.trouble = amity.el("p", { class: "bad", role: "alert" });
    this.figures = amity.el("a", { download: true }, "figures and tables (SVG, PDF, CSV, LaTeX)");
    this.figures.hidden = report;
    this.over.append(amity.el("div", { class: "bar" }, this.choice, this.figures), this.trouble, this.tiles);
    for (const section of [this.tableHome, this.membersHome, this.peerHome]) section.hidden = true;
    this.link = document.getElementById("link");
    this.source = source((messages) => this.heard(messages), (what, told) => this.said(what, told));
    this.rounds.snap = (cell, round, least) => this.source.nearest?.(cell, round, least) ?? round;
    if (this.asked.view) this.rounds.turn(this.asked.view === "matrix" ? "matrix" : "network");
  }

  said(what, told) {
    const again = [...this.store.cells.values()].map((cell) => cell.group || cell.path);
    const words = {
      live: told.beside ? "connected; the page ends with its command" : "connected",
      stranger: "another page is served at this address now, with another token; what was told stays here. Open the address that amity printed",
      lost: "the server does not answer; what was told stays here, and the page tries again",
      ended: `the server has ended; what was told stays here. \`amity watch ${[...new Set(again)].slice(0, 3).join(" ")}\` shows it again`,
    };
    amity.text(this.link, words[what]);
    this.link.className = what === "live" ? "" : "bad";
    if (told.version) amity.text(document.getElementById("foot"), `Amity ${told.version}. Served by this machine alone; nothing is loaded from elsewhere.`);
  }

  heard(messages) {
    for (const message of messages) this.store.take(message);
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => { this.due = false; this.refresh(); });
  }

  get cell() {
    return this.store.cells.get(this.id);
  }

  refresh() {
    if (!this.cell) this.id = this.first();
    this.options();
    const cell = this.cell;
    if (!cell) { amity.text(this.trouble, ["nothing has begun here yet", ...this.store.warnings].join("; ")); return; }
    const group = [...this.store.cells.values()].filter((one) => one.group === cell.group && one.group);
    this.rounds.of(cell, cell.metric);
    this.rounds.planned = this.store.planned(cell.id);
    const last = this.store.there(cell.id);
    if (this.asked.round !== undefined && last >= Number(this.asked.round)) {
      this.rounds.follow = false;
      this.rounds.last = last;
      this.rounds.to(Number(this.asked.round));
      delete this.asked.round;
    }
    this.rounds.reach(last);
    this.rounds.again();
    const compared = group.length > 1;
    this.curves.show(amity.linesOf(this.store, compared ? group : [cell]), cell.metric, compared ? cell.label : "");
    this.tableHome.hidden = !compared;
    if (compared) this.standings(cell.group);
    this.overview(cell, last);
    const state = this.store.states.get(cell.id);
    if (state) this.members.show(cell, state, this.store, cell.metric);
    if (this.asked.peer) { const peer = this.asked.peer; delete this.asked.peer; this.open(peer); }
    else if (this.peer) this.lookAt();
  }

  first() {
    if (this.asked.cell && this.store.cells.has(this.asked.cell)) return this.asked.cell;
    const cells = [...this.store.cells.values()];
    const begun = cells.filter((cell) => this.store.last(cell.id) >= 0);
    const busy = begun.find((cell) => this.store.at(cell.id, this.store.last(cell.id))?.in > 0);
    return (busy || begun[0] || cells[0])?.id;
  }

  options() {
    const cells = [...this.store.cells.values()];
    this.choice.hidden = cells.length < 2;
    const count = new Map();
    for (const cell of cells) count.set(`${cell.label} ${cell.seed}`, (count.get(`${cell.label} ${cell.seed}`) || 0) + 1);
    const named = (cell) => {
      const seed = cell.seed === null || cell.seed === undefined ? "" : `, seed ${cell.seed}`;
      const twice = count.get(`${cell.label} ${cell.seed}`) > 1 ? ` (${cell.path})` : "";
      return `${cell.label}${seed}${twice}: ${this.store.standing(cell.id).said || "?"}`;
    };
    amity.fill(this.choice, cells.map((cell) => amity.el("option", { value: cell.id }, named(cell))));
    if (this.id) this.choice.value = this.id;
  }

  pick(id) {
    this.id = id;
    this.open("");
    this.remember();
    this.refresh();
  }

  pickLabel(label) {
    const same = [...this.store.cells.values()].filter((one) => one.group === this.cell.group && one.label === label);
    const found = same.find((one) => one.seed === this.cell.seed) || same[0];
    if (found) this.pick(found.id);
  }

  overview(cell, last) {
    const now = this.store.at(cell.id, this.rounds.round >= 0 ? this.rounds.round : last), standing = this.store.standing(cell.id);
    const tile = (name, value) => amity.el("div", {}, amity.el("dt", {}, name), amity.el("dd", {}, value));
    const planned = this.store.planned(cell.id), net = now?.net || {};
    const share = (value) => `${(100 * value).toFixed(0)} %`;
    amity.fill(this.tiles, amity.el("dl", { class: "tiles" },
      tile("state", standing.said || "?"), tile("rounds done", `${last + 1} of ${planned || "?"}`), tile("peers", String(cell.peers)),
      now?.spread ? tile(`${cell.metric.name}, mean`, amity.metric(now.spread[0], cell.metric)) : null,
      now?.spread ? tile("lowest to highest", `${amity.metric(now.spread[1], cell.metric)} to ${amity.metric(now.spread[5], cell.metric)}`) : null,
      now?.harmed !== undefined ? tile("harmed", `${now.harmed} of ${now.peers}`) : null,
      net.precision !== undefined && net.precision !== null ? tile("friends among taken", share(net.precision)) : null,
      now?.offline ? tile("reach nobody", String(now.offline)) : null,
      now?.missing ? tile("answers missing", String(now.missing)) : null,
      net.attackers_weight !== undefined && net.attackers_weight !== null ? tile("attackers' share", share(net.attackers_weight)) : null,
      now?.diverged ? tile("diverged", String(now.diverged)) : null,
      now?.epsilon !== undefined ? tile("largest ε", now.epsilon.toPrecision(3)) : null,
      now ? tile("received by a peer", amity.bytes(now.in)) : null));
    const mine = Object.keys(cell.tracks).map((track) => this.store.troubles.get(track)).filter(Boolean);
    const bad = ["gone", "failed", "stopped"].filter((word) => standing.states.has(word)).map((word) => (word === "gone" ? "its directory is not there any more; what was told stays here" : `${word}${standing.why ? `: ${standing.why}` : ""}`));
    amity.text(this.trouble, [...bad, ...mine, ...this.store.warnings].join("; "));
    const runs = [...this.store.cells.values()].filter((one) => one.group && one.group === cell.group);
    const what = runs.length > 1 ? `${new Set(runs.map((one) => one.label)).size} strategies in ${runs.length} runs` : cell.label;
    if (this.report) return;
    amity.text(document.getElementById("title"), `Amity: ${what} on ${cell.data || "?"}, ${cell.peers} peers`);
    document.title = `${last + 1} of ${planned || "?"} rounds${now?.spread ? `, ${amity.metric(now.spread[0], cell.metric)}` : ""}: ${cell.label}`;
    this.figures.href = this.source.link("figures", { cell: cell.id, whole: cell.group ? "1" : "0" });
    this.figures.hidden = last < 0;
  }

  async standings(group) {
    if (this.counting) { this.recount = true; return; }
    this.counting = true;
    const table = await this.source.get("table", { group });
    if (table && this.cell?.group === group) this.table.show(table, this.cell.metric, this.cell.label);
    setTimeout(() => { this.counting = false; if (this.recount) { this.recount = false; this.standings(group); } }, 700);
  }

  open(peer) {
    this.peer = peer;
    this.rounds.mark(peer);
    if (!peer) this.peers.hide();
    else this.lookAt(true);
    this.remember();
  }

  async lookAt(scroll) {
    if (this.looking) return;
    this.looking = true;
    const { id, peer } = this, data = await this.source.get("peer", { cell: id, peer });
    if (data && this.id === id && this.peer === peer) {
      this.peers.show(data, this.cell.metric, await this.alone(data));
      if (scroll) this.peerHome.scrollIntoView({ block: "nearest" });
    } else if (!data && this.peer === peer && this.peers.data?.peer !== peer) {
      this.peers.none(peer, this.report ? "They are not in this file; `amity watch` shows every peer." : "They cannot be had now.");
    }
    setTimeout(() => { this.looking = false; if (this.peer && this.peer !== peer) this.lookAt(scroll); }, 800);
  }

  // The same peer in the run that takes from nobody, where the comparison has one with this seed.
  async alone(data) {
    const row = this.table.table?.rows.find((one) => one.alone);
    if (!row || data.rounds.some((one) => one.alone !== null)) return null;
    const twin = [...this.store.cells.values()].find((one) => one.group === this.cell.group && one.label === row.label && one.seed === this.cell.seed);
    const found = twin && (await this.source.get("peer", { cell: twin.id, peer: data.peer }));
    return found ? new Map(found.rounds.filter((one) => one.value !== null).map((one) => [one.round, one.value])) : null;
  }

  moved() {
    if (this.cell) this.overview(this.cell, this.store.there(this.cell.id));
    this.remember();
  }

  // What is chosen stands in the address, so a reload shows the same.
  remember() {
    if (this.report) return;
    const kept = { cell: this.id || "" };
    if (!this.rounds.follow && this.rounds.round >= 0) kept.round = String(this.rounds.round);
    if (this.rounds.view) kept.view = this.rounds.view;
    if (this.peer) kept.peer = this.peer;
    history.replaceState(null, "", `${location.pathname}${location.search}#${new URLSearchParams(kept)}`);
  }
};

document.addEventListener("DOMContentLoaded", () => {
  const home = document.getElementById("live");
  if (home) amity.page = new amity.Page(home, (...given) => new amity.Source(...given));
});

// One round of one network: a drawing or a matrix, a slider over rounds, and everything as a list.
"use strict";
var amity = globalThis.amity || (globalThis.amity = {});

amity.MANY = 50; // beyond so many peers the matrix comes first
amity.LISTED = 300; // so many peers are listed

amity.RoundView = class {
  // `fetch(round)` gives the details of a round; `choose(peer)` opens one peer; `moved(round)`.
  constructor(home, fetch, choose, moved) {
    Object.assign(this, { home, fetch, choose, moved });
    this.view = "";
    this.follow = true;
    this.round = -1;
    this.last = -1;
    this.kept = new Map();
    this.title = amity.el("h2", {}, "Who learns from whom");
    const view = (name, words) => amity.el("button", { type: "button", "data-view": name, onclick: () => this.turn(name) }, words);
    this.buttons = [view("network", "network"), view("matrix", "matrix")];
    this.zooms = [["+", 1.25], ["−", 0.8]].map(([sign, by]) => amity.el("button", { type: "button", "aria-label": by > 1 ? "zoom in" : "zoom out", onclick: () => this.closer(by) }, sign));
    this.play = amity.el("button", { type: "button", "data-key": "play", onclick: () => this.toggle() }, "play");
    this.slider = amity.el("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "round", oninput: () => this.to(Number(this.slider.value), true) });
    this.where = amity.el("label", {}, "");
    this.newest = amity.el("button", { type: "button", "aria-pressed": "true", title: "show each new round as it comes", onclick: () => { this.follow = true; this.to(this.last); } }, "newest");
    this.stages = { network: amity.el("div", { class: "stage" }), matrix: amity.el("div", { class: "stage" }) };
    this.legend = amity.el("ul", { class: "legend" });
    this.note = amity.el("p", { class: "note" });
    this.list = amity.el("div", {});
    this.named = amity.el("input", { type: "search", size: 14, maxlength: 200, placeholder: "name of a peer", "aria-label": "open the peer of this name", onchange: () => { if (this.named.value.trim()) this.choose(this.named.value.trim()); } });
    this.rest = amity.el("details", {}, amity.el("summary", {}, "All peers of this round as a list"), this.list);
    this.rest.addEventListener("toggle", () => this.tell());
    home.append(this.title, amity.el("div", { class: "bar" }, this.buttons, this.zooms, this.named), this.stages.network, this.stages.matrix, this.legend,
      amity.el("div", { class: "bar" }, this.play, this.slider, this.where, this.newest), this.note, this.rest);
    this.views = { network: new amity.NetworkView(this.stages.network, choose), matrix: new amity.MatrixView(this.stages.matrix, choose) };
    this.turn("network", true);
  }

  turn(view, byItself = false) {
    if (!byItself) this.view = view;
    for (const [name, stage] of Object.entries(this.stages)) stage.hidden = name !== view;
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.view === view));
    for (const zoom of this.zooms) zoom.hidden = view !== "network";
    this.shown = view;
    this.draw();
  }

  closer(by) {
    const view = this.views.network;
    view.zoom = Math.min(8, Math.max(0.5, view.zoom * by));
    view.move();
  }

  // Another network: nothing of the last one stays.
  of(cell, metric) {
    if (this.cell?.id === cell?.id) { this.cell = cell; this.metric = metric; return; }
    this.cell = cell;
    this.metric = metric;
    this.kept.clear();
    this.views.network.nodes.clear();
    this.data = null;
    this.round = this.last = -1;
    this.follow = true;
  }

  reach(last) {
    if (last < this.last) this.kept.clear();
    this.last = last;
    this.slider.max = String(Math.max(0, last));
    if (this.follow || this.round > last) this.to(last);
    this.said();
  }

  to(round, byHand = false) {
    if (byHand) this.follow = round === this.last;
    this.newest.setAttribute("aria-pressed", String(this.follow));
    if (round < 0) { this.data = null; this.said(); return; }
    round = this.snap ? this.snap(this.cell, round) : round;
    this.round = round;
    this.slider.max = String(Math.max(0, this.last));
    this.slider.value = String(round);
    this.said();
    this.moved?.(round);
    this.load(round);
  }

  async load(round) {
    const cell = this.cell, known = this.kept.get(round);
    if (known) { this.take(known, round, cell); return; }
    if (this.busy) { this.waiting = true; return; }
    this.busy = true;
    try {
      const data = await this.fetch(cell, round);
      if (data) this.take(data, round, cell);
    } finally {
      this.busy = false;
      if (this.waiting) { this.waiting = false; this.load(this.round); }
    }
  }

  take(data, round, cell) {
    if (this.cell?.id !== cell?.id) return;
    const whole = !data.there || data.there.every(Boolean);
    if (whole) this.kept.set(round, data);
    while (this.kept.size > 40) this.kept.delete(this.kept.keys().next().value);
    if (round !== this.round && !this.waiting) return;
    if (this.data === data) return;  // nothing new to draw
    this.data = data;
    if (!this.view) this.turn(data.count > amity.MANY ? "matrix" : "network", true);
    this.draw();
    this.tell();
  }

  // A round that peers are still joining is asked for again.
  again() {
    if (this.data?.there && !this.data.there.every(Boolean) && this.round >= 0) {
      this.kept.delete(this.round);
      this.load(this.round);
    }
  }

  draw() {
    if (!this.data) return;
    const binned = !this.data.peers;
    this.buttons[0].disabled = binned;
    if (binned && this.shown === "network") { this.turn("matrix", true); return; }
    this.views[this.shown].show(this.data, this.metric);
    const items = Object.entries(this.data.legend || {}).map(([colour, words]) => amity.el("li", {}, amity.el("span", { class: "swatch", "data-colour": colour }), `${Number(colour) + 1} ${words}`));
    const signs = this.shown === "network" ? amity.SIGNS.filter(([, , seen]) => this.data.peers.some((_name, at) => seen(this.data, at))).map(([sign, words]) => amity.el("li", {}, `${sign}: ${words}`)) : [];
    amity.fill(this.legend, items, signs);
    for (const swatch of this.legend.querySelectorAll(".swatch")) swatch.style.background = amity.colour(Number(swatch.dataset.colour));
    const friend = this.data.friend ? ` A friend is ${this.data.friend}.` : "";
    const words = this.shown === "network" ? "A line is as wide as the weight that one peer gave another's model" + (this.data.edges.length > amity.MASS ? "." : "; its arrow points to who took.") : `Row: who took; column: from whom; the stronger the colour, the more weight.${binned ? " Each square is a mean over a bin of peers." : ""} Peers that are alike stand side by side.`;
    amity.text(this.note, words + friend);
  }

  mark(peer) {
    for (const view of Object.values(this.views)) { view.chosen = peer; view.canvas.touch(); }
  }

  said() {
    const cell = this.cell, planned = this.planned || this.last + 1;
    const seed = cell && cell.seed !== null && cell.seed !== undefined ? `, seed ${cell.seed}` : "";
    amity.text(this.title, cell ? `Who learns from whom: ${cell.label}${seed}${this.round >= 0 ? `, round ${this.round + 1}` : ""}` : "Who learns from whom");
    amity.text(this.where, this.last < 0 ? "no round is done yet" : `round ${this.round + 1} of ${planned}${this.last + 1 < planned ? `, ${this.last + 1} done` : ""}`);
  }

  toggle() {
    if (this.timer) { clearInterval(this.timer); this.timer = 0; amity.text(this.play, "play"); return; }
    if (this.round >= this.last) this.to(0, true);
    amity.text(this.play, "pause");
    this.timer = setInterval(() => {
      if (this.round >= this.last) this.toggle();
      else if (!this.busy) this.to(this.snap ? this.snap(this.cell, this.round + 1, 1) : this.round + 1, true);
    }, 350);
  }

  tell() {
    if (!this.rest.open || !this.data) return;
    const data = this.data;
    if (!data.peers) { amity.fill(this.list, amity.el("p", { class: "note" }, `${data.count} peers are too many to list.`)); return; }
    const rows = data.peers.map(() => []);
    for (const [taker, giver, weight] of data.edges) rows[taker].push([data.peers[giver], weight]);
    const lines = data.peers.slice(0, amity.LISTED).map((name, at) => {
      const took = rows[at].sort((a, b) => b[1] - a[1]).map(([from, weight]) => `${from} ${amity.weight(weight)}`).join(", ");
      const state = [data.harmed[at] ? "harmed" : "", data.attacker[at] ? "attacker" : "", data.missing[at] ? `${data.missing[at]} missing` : "", data.there[at] ? "" : "not yet"].filter(Boolean).join(", ");
      const open = amity.el("button", { type: "button", "data-key": name, onclick: () => this.choose(name) }, name);
      return [{ is: open, class: "w" }, data.legend?.[data.colours[at]] || "–", amity.metric(data.value[at], this.metric), amity.metric(data.alone[at], this.metric), amity.weight(data.self[at] || 0), { is: took || "nobody", class: "words" }, amity.bytes(data.in[at]), { is: state || "–", class: "w" }];
    });
    const more = data.peers.length > lines.length ? amity.el("p", { class: "note" }, `${data.peers.length - lines.length} more`) : null;
    amity.fill(this.list, amity.table([{ is: "peer", class: "w" }, "group", this.metric?.name || "accuracy", "alone", "own weight", { is: "took from", class: "w" }, "received", { is: "state", class: "w" }], lines, { label: "all peers of this round" }), more);
  }
};

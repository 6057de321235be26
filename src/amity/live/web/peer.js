// One peer: whom it took in each round, with what weight and why; its gain, bytes, ε and log.
"use strict";
var amity = globalThis.amity || (globalThis.amity = {});

amity.PeerView = class {
  constructor(home, close) {
    this.home = home;
    this.head = amity.el("h2", {}, "One peer");
    this.close = amity.el("button", { type: "button", onclick: close }, "close");
    this.about = amity.el("div", {});
    this.stage = amity.el("div", {});
    this.body = amity.el("div", {});
    home.append(this.head, amity.el("div", { class: "bar" }, this.close), this.about, this.stage, this.body);
    this.curves = new amity.Curves(this.stage, "On its own test examples");
  }

  hide() {
    this.home.hidden = true;
    this.data = null;
  }

  // Nothing is known of it, and why.
  none(peer, why) {
    this.home.hidden = false;
    this.stage.hidden = true;
    amity.text(this.head, `No records of ${peer}`);
    amity.fill(this.about, amity.el("p", { role: "status" }, why));
    amity.fill(this.body);
  }

  show(data, metric, alone) {
    if (!data.rounds.length && !data.log.length) { this.none(data.peer, "Nobody of this name has done a round here."); return; }
    this.home.hidden = false;
    this.data = data;
    amity.text(this.head, `Why ${data.peer} took whom it took`);
    const last = data.rounds.at(-1);
    const mine = (one) => (one.alone === null ? alone?.get(one.round) ?? null : one.alone);
    amity.fill(this.about, this.tiles(data, last, metric, last ? mine(last) : null), this.labels(data));
    const known = data.rounds.filter((one) => one.value !== null);
    let received = 0;
    const lines = [{ label: data.peer, seeds: 1, points: known.map((one) => ({ round: one.round, mean: one.value, low: one.value, high: one.value, bytes: (received += one.in) })) }];
    if (known.some((one) => mine(one) !== null)) {
      lines.push({ label: "training alone", seeds: 1, free: true, points: known.filter((one) => mine(one) !== null).map((one) => ({ round: one.round, mean: mine(one), low: mine(one), high: mine(one), bytes: 0 })) });
    }
    this.stage.hidden = !known.length;
    if (known.length) this.curves.show(lines, metric);
    amity.fill(this.body, this.rounds(data, metric, mine), this.log(data));
  }

  tiles(data, last, metric, alone) {
    const tile = (name, value) => amity.el("div", {}, amity.el("dt", {}, name), amity.el("dd", {}, value));
    const sum = (key) => data.rounds.reduce((total, one) => total + (one[key] || 0), 0);
    const gain = last && last.value !== null && alone !== null ? amity.points({ mean: amity.gain(last.value, alone, metric) }, metric) : "not known";
    return amity.el("dl", { class: "tiles" },
      tile(metric?.name || "accuracy", last ? amity.metric(last.value, metric) : "–"),
      tile("gain over training alone", gain), tile("received", amity.bytes(sum("in"))), tile("sent", amity.bytes(sum("out"))),
      last?.epsilon !== null && last?.epsilon !== undefined ? tile("ε", last.epsilon.toPrecision(3)) : null,
      data.attacker ? tile("role", "attacker") : null,
      data.group !== null && data.group !== undefined ? tile("group", String(data.group + 1)) : null);
  }

  labels(data) {
    const held = data.labels.map((share, at) => [share, data.classes[at] ?? String(at)]).filter(([share]) => share > 0).sort((a, b) => b[0] - a[0]).slice(0, 8);
    if (!held.length) return null;
    return amity.el("p", { class: "note" }, `Its examples: ${held.map(([share, name]) => `${name} ${(100 * share).toFixed(0)} %`).join(", ")}.`);
  }

  rounds(data, metric, mine) {
    const lines = [...data.rounds].reverse().map((one) => {
      const facts = Object.entries(one.facts || {});
      const why = (name) => facts.filter(([, known]) => Object.hasOwn(known, name)).map(([fact, known]) => `${fact} ${known[name].toPrecision(3)}`).join(", ");
      const words = (name) => (why(name) ? ` (${why(name)})` : "");
      const took = Object.entries(one.row).filter(([name]) => name !== data.peer).map(([name, weight]) => `${name} ${amity.weight(weight)}${words(name)}`);
      const others = [...new Set(facts.flatMap(([, known]) => Object.keys(known)))].filter((name) => !Object.hasOwn(one.row, name) && name !== data.peer).map((name) => `${name}${words(name)}`);
      const notes = Object.entries(one.notes || {}).map(([name, value]) => `${name} ${value === null ? "–" : Number(value).toPrecision(3)}`).join(", ");
      const gain = one.value !== null && mine(one) !== null ? amity.points({ mean: amity.gain(one.value, mine(one), metric) }, metric) : "–";
      return [String(one.round + 1), amity.metric(one.value, metric), gain,
        { class: "words", is: amity.el("span", {}, took.join("; ") || "nobody", others.length ? amity.el("span", { class: "faint" }, ` · not taken: ${others.join("; ")}`) : null) },
        { class: "words", is: amity.el("span", {}, one.said || "", notes ? amity.el("span", { class: "faint" }, `${one.said ? " · " : ""}${notes}`) : null) },
        amity.bytes(one.in), amity.bytes(one.out), one.epsilon === null ? "–" : one.epsilon.toPrecision(3)];
    });
    const head = ["round", metric?.name || "accuracy", { is: "gain", title: "over training alone, in points" }, { is: "took from, with what weight and why", class: "w" }, { is: "what it knew", class: "w" }, "received", "sent", "ε"];
    return [amity.el("h3", {}, "Round by round, the newest first"), amity.table(head, lines, { label: `decisions of ${data.peer}` })];
  }

  log(data) {
    if (!data.log.length) return null;
    return [amity.el("h3", {}, "Its log"), amity.el("ul", { class: "log", "data-scroll": "" }, [...data.log].reverse().map((one) => amity.el("li", {}, amity.happened(one, ""))))];
  }
};

// A line of a peer's log in words.
amity.happened = function (one, teller) {
  const at = one.at ? new Date(1000 * one.at).toLocaleTimeString() : "";
  const about = one.peer ? ` ${one.peer}` : "";
  const why = one.why ? `: ${one.why}` : "";
  const detail = one.detail || one.message ? ` (${one.detail || one.message})` : "";
  return `${at} ${teller ? `${teller}: ` : ""}${one.event}${about}${why}${one.count > 1 ? ` ×${one.count}` : ""}${detail}`;
};

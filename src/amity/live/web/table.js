// A comparison as it grows: means over seeds, intervals paired by seed, and who leads.
"use strict";
var amity = globalThis.amity || (globalThis.amity = {});

amity.TableView = class {
  constructor(home, choose) {
    this.choose = choose;
    this.title = amity.el("h2", {}, "The comparison so far");
    this.said = amity.el("p", { role: "status" });
    this.body = amity.el("div", {});
    home.append(this.title, this.said, this.body);
  }

  show(table, metric, chosen) {
    this.table = table;
    const name = metric?.name || "accuracy", fair = table.rows.filter((row) => !row.reference);
    const common = table.round + 1, ahead = metric?.up === false ? "lowest" : "highest";
    amity.text(this.title, common ? `The comparison at round ${common}, which all have reached` : "The comparison: no round is done yet");
    const top = table.rows.find((row) => row.label === table.top);
    let words = "Nobody has done a round yet.";
    if (top) {
      words = table.leads
        ? `${top.label} leads with ${amity.metric(top.value, metric)}: its differences to all others, paired by seed, have 95 % intervals that exclude 0.`
        : `${top.label} is ${ahead} with ${amity.metric(top.value, metric)}${fair.length > 1 ? ", but does not lead: some interval includes 0, or seeds are missing" : ""}.`;
    }
    amity.text(this.said, words);
    const order = [...table.rows].sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity));
    if (metric?.up === false) order.reverse();
    const lines = order.map((row) => {
      const done = row.done.map((count) => (row.rounds ? Math.min(1, count / row.rounds) : 0));
      const share = done.length ? done.reduce((a, b) => a + b, 0) / done.length : 0;
      const pick = amity.el("button", { type: "button", "data-key": row.label, "aria-pressed": String(row.label === chosen), onclick: () => this.choose(row.label) }, row.label);
      return { class: [row.label === table.top && table.leads ? "best" : "", row.reference ? "ref" : ""].join(" ").trim(),
        cells: [{ is: pick, class: "w" }, amity.metric(row.value, metric), amity.points(row.vs_top, metric), amity.points(row.vs_local, metric), row.harmed === null ? "–" : `${(100 * row.harmed).toFixed(0)} %`, row.in === null ? "–" : amity.bytes(row.in), `${row.compared} of ${row.seeds}`, `${Math.round(100 * share)} %`] };
    });
    const head = [{ is: "strategy", class: "w" }, `${name}`, { is: `to the ${ahead}`, title: "points, mean over seeds ± half of the 95 % interval" }, { is: "to training alone", title: "points, mean over seeds ± half of the 95 % interval" }, { is: "harmed", title: "peers that would do better alone (eval.shadow)" }, "received", { is: "seeds", title: "that have reached this round" }, "done"];
    amity.fill(this.body, amity.table(head, lines, { label: "the comparison so far" }),
      table.rows.some((row) => row.reference) ? amity.el("p", { class: "note" }, "In italics: references, which no real network can run.") : null);
  }
};

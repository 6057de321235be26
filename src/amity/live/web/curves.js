// The leading metric by round or by bytes: a line for each strategy, with its spread.
"use strict";
var amity = globalThis.amity || (globalThis.amity = {});

// From networks to lines: of several seeds, the mean over seeds and their lowest and highest.
amity.linesOf = function (store, cells) {
  const labels = new Map();
  for (const cell of cells) labels.set(cell.label, [...(labels.get(cell.label) || []), cell]);
  return [...labels].map(([label, members]) => {
    const runs = members.map((cell) => store.series(cell.id)).filter((one) => one.length);
    if (runs.length < 2) return { label, seeds: runs.length, points: runs[0] || [] };
    const rounds = new Map();
    for (const run of runs) for (const one of run) rounds.set(one.round, [...(rounds.get(one.round) || []), one]);
    const points = [...rounds.values()].filter((ones) => ones.length === runs.length).map((ones) => ({
      round: ones[0].round,
      mean: ones.reduce((sum, one) => sum + one.mean, 0) / ones.length,
      low: Math.min(...ones.map((one) => one.mean)),
      high: Math.max(...ones.map((one) => one.mean)),
      bytes: ones.reduce((sum, one) => sum + one.bytes, 0) / ones.length,
    }));
    return { label, seeds: runs.length, points };
  });
};

amity.Curves = class {
  // `said`: what stands below, in place of what the bands mean.
  constructor(home, said = "") {
    this.by = "round";
    this.said = said;
    this.title = amity.el("h2", {}, "Accuracy by round");
    this.note = amity.el("p", { class: "note" });
    this.stage = amity.el("div", { class: "stage", role: "img" });
    const button = (by, words) => amity.el("button", { type: "button", "data-by": by, onclick: () => this.turn(by) }, words);
    this.buttons = [button("round", "by round"), button("bytes", "by bytes received")];
    home.append(this.title, amity.el("div", { class: "bar" }, this.buttons), this.stage, this.note);
    this.plot = null;
    this.lines = [];
    this.metric = null;
    new ResizeObserver(() => this.resize()).observe(this.stage);
    globalThis.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.build());
  }

  turn(by) {
    this.by = by;
    this.build();
  }

  show(lines, metric, marked) {
    const shape = JSON.stringify([lines.map((line) => line.label), metric, marked]);
    this.lines = lines;
    this.metric = metric;
    this.marked = marked;
    if (shape !== this.shape || !this.plot) {
      this.shape = shape;
      this.build();
    } else if (!this.zoomed()) this.plot.setData(this.data());
    else this.plot.setData(this.data(), false);
    this.caption();
  }

  zoomed() {
    const x = this.plot.scales.x, all = this.plot.data[0];
    return x.min !== undefined && all.length > 1 && (x.min > all[0] + 1e-9 || x.max < (this.end ?? all.at(-1)) - 1e-9);
  }

  x(point) {
    return this.by === "round" ? point.round + 1 : point.bytes / 1e6;
  }

  data() {
    const by = this.by, scale = this.metric?.percent === false ? 1 : 100;
    const tables = this.lines.map((line) => {
      const points = (by === "bytes" && line.free ? [] : line.points).filter((one, at, all) => !at || this.x(one) > this.x(all[at - 1]));
      return [points.map((one) => this.x(one)), points.map((one) => scale * one.mean),
        points.map((one) => scale * one.low), points.map((one) => scale * one.high)];
    });
    const joined = tables.length ? uPlot.join(tables) : [[]];
    this.end = joined[0].at(-1);
    return joined;
  }

  build() {
    const by = this.by, name = this.metric?.name || "accuracy";
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.by === by));
    amity.text(this.title, `${name[0].toUpperCase()}${name.slice(1)} by ${by === "round" ? "round" : "bytes received"}`);
    const ink = amity.ink("ink"), rule = amity.ink("rule");
    const series = [{ label: by === "round" ? "round" : "MB" }], bands = [];
    this.lines.forEach((line, at) => {
      const colour = amity.colour(at), width = this.marked && this.marked !== line.label ? 1.5 : 2.5;
      const shown = (_plot, value) => (value === null || value === undefined ? "–" : value.toFixed(2));
      series.push({ label: line.label, stroke: colour, width, dash: amity.DASHES[at % amity.DASHES.length], spanGaps: true, value: shown, points: { show: line.points.length < 2 } });
      for (const edge of ["lowest", "highest"]) {
        series.push({ label: `${line.label}: ${edge}`, stroke: `${colour}00`, width: 0, spanGaps: true, points: { show: false }, value: shown, show: true });
      }
      bands.push({ series: [3 * at + 3, 3 * at + 2], fill: `${colour}26` });
    });
    const axis = { stroke: ink, grid: { stroke: `${rule}66`, width: 1 }, ticks: { stroke: rule } };
    this.plot?.destroy();
    this.plot = new uPlot({
      width: Math.max(200, this.stage.clientWidth), height: this.height(), series, bands,
      scales: { x: { time: false } }, legend: { show: this.lines.length <= 6, live: true },
      axes: [{ ...axis, label: by === "round" ? "round" : "MB received by a peer", size: 46, ...(by === "round" ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] } : {}) }, { ...axis, size: 52, label: this.metric?.unit === "" ? name : `${name} (${this.metric?.unit || "%"})` }],
      cursor: { drag: { x: true, y: false } },
    }, this.data(), this.stage);
    for (const row of this.stage.querySelectorAll(".u-series")) {
      if (/: (lowest|highest)$/.test(row.textContent.replace(/[\d.–-]+$/, "").trim())) row.hidden = true;
    }
    this.stage.querySelectorAll(".u-legend tr").forEach((row, at) => { if (at && at % 3 !== 1) row.style.display = "none"; });
    this.caption();
  }

  caption() {
    const seeds = Math.max(0, ...this.lines.map((line) => line.seeds));
    const band = seeds > 1 ? `bands: lowest to highest of ${seeds} seeds` : "band: the middle 80 % of the peers";
    const last = this.lines.map((line) => (line.points.length ? `${line.label} ${amity.metric(line.points.at(-1).mean, this.metric)}` : ""));
    amity.text(this.note, `${this.said || `Mean over peers; ${band}`}. Drag to zoom, double-click for all.`);
    this.stage.setAttribute("aria-label", `${this.title.textContent}: ${last.filter(Boolean).join(", ") || "nothing yet"}`);
  }

  height() {
    return this.stage.clientWidth < 420 ? 240 : 340;
  }

  resize() {
    if (this.plot && this.stage.clientWidth > 0 && Math.abs(this.plot.width - this.stage.clientWidth) > 1) {
      this.plot.setSize({ width: this.stage.clientWidth, height: this.height() });
    }
  }
};

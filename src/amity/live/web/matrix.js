// The mixing matrix of one round: row, who took; column, from whom. Peers that are alike stand side
// by side. Very large networks come in bins: a mean over the peers of each.
"use strict";
var amity = globalThis.amity || (globalThis.amity = {});

amity.MatrixView = class {
  constructor(stage, choose) {
    this.choose = choose;
    this.data = null;
    this.at = null;
    this.chosen = null;
    this.zoom = 1;
    this.canvas = amity.canvas(stage, "the mixing matrix", (width) => Math.round(Math.min(width, 620)), (...given) => this.draw(...given), (...given) => this.mark(...given));
    const node = this.canvas.node;
    node.addEventListener("pointermove", (event) => this.hover(event));
    node.addEventListener("pointerleave", () => { this.at = null; this.canvas.say(""); this.canvas.touch(); });
    node.addEventListener("click", (event) => { this.hover(event); if (this.at && this.data.peers) this.choose(this.data.peers[this.at[0]]); });
    node.addEventListener("keydown", (event) => this.key(event));
    this.image = document.createElement("canvas");
  }

  show(data, metric) {
    this.data = data;
    this.metric = metric;
    this.count = data.peers ? data.peers.length : data.bins.length;
    this.rows = new Map();
    let most = 0;
    const put = (taker, giver, weight) => {
      if (!weight) return;
      if (!this.rows.has(taker)) this.rows.set(taker, new Map());
      this.rows.get(taker).set(giver, weight);
      most = Math.max(most, weight);
    };
    if (data.peers) for (const [taker, giver, weight] of data.edges) put(taker, giver, weight);
    else data.matrix.forEach((row, taker) => row.forEach((weight, giver) => put(taker, giver, weight)));
    this.most = most || 1;
    this.picture();
    const what = data.peers ? `${this.count} peers` : `${data.count} peers in ${this.count} bins`;
    this.canvas.node.setAttribute("aria-label", `Mixing matrix of ${what} in round ${data.round + 1}, ordered by groups; the darkest square is a weight of ${amity.weight(this.most)}. Arrow keys move, Enter opens the peer of a row.`);
    this.canvas.paint();
  }

  // Drawn once for each round, one pixel for each pair; scaled when painted.
  picture() {
    const size = Math.max(1, this.count);
    this.image.width = this.image.height = size;
    const context = this.image.getContext("2d"), pixels = context.createImageData(size, size);
    for (const [taker, row] of this.rows) {
      for (const [giver, weight] of row) {
        const strong = Math.sqrt(weight / this.most), at = 4 * (taker * size + giver);
        pixels.data[at] = Math.round(86 - 86 * strong);
        pixels.data[at + 1] = Math.round(180 - 100 * strong);
        pixels.data[at + 2] = Math.round(233 - 55 * strong);
        pixels.data[at + 3] = Math.round(60 + 195 * strong);
      }
    }
    context.putImageData(pixels, 0, 0);
  }

  frame(width, height) {
    const edge = 18;
    return { edge, side: Math.min(width, height) - edge - 2 };
  }

  draw(context, width, height) {
    if (!this.data) return;
    const { edge, side } = this.frame(width, height), cell = side / this.count;
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image, edge, edge, side, side);
    context.strokeStyle = amity.ink("rule");
    context.strokeRect(edge, edge, side, side);
    this.margins(context, edge, side, cell);
  }

  // The row that is pointed at, and the square.
  mark(context, width, height) {
    if (!this.data) return;
    const { edge, side } = this.frame(width, height), cell = side / this.count;
    const row = this.at ? this.at[0] : this.data.peers ? this.data.peers.indexOf(this.chosen) : -1;
    context.strokeStyle = amity.ink("focus");
    context.lineWidth = 2;
    if (row >= 0) context.strokeRect(edge, edge + row * cell, side, Math.max(cell, 2));
    if (this.at) context.strokeRect(edge + this.at[1] * cell, edge + this.at[0] * cell, Math.max(cell, 3), Math.max(cell, 3));
  }

  // Groups as bars with their numbers, and lines where one ends.
  margins(context, edge, side, cell) {
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    let from = 0;
    for (let at = 1; at <= this.count; at += 1) {
      if (at < this.count && this.data.colours[at] === this.data.colours[from]) continue;
      const group = this.data.colours[from], begin = edge + from * cell, long = (at - from) * cell;
      context.fillStyle = amity.colour(group);
      context.fillRect(0, begin, edge - 4, long);
      context.fillRect(begin, 0, long, edge - 4);
      if (group >= 0 && long > 12) {
        context.fillStyle = "#fff";
        context.fillText(String(group + 1), (edge - 4) / 2, begin + long / 2);
        context.fillText(String(group + 1), begin + long / 2, (edge - 4) / 2);
      }
      if (at < this.count) {
        context.strokeStyle = amity.ink("rule");
        context.beginPath();
        context.moveTo(edge, begin + long);
        context.lineTo(edge + side, begin + long);
        context.moveTo(begin + long, edge);
        context.lineTo(begin + long, edge + side);
        context.stroke();
      }
      from = at;
    }
  }

  words(taker, giver) {
    const weight = this.rows.get(taker)?.get(giver) || 0;
    if (this.data.peers) {
      const [one, other] = [this.data.peers[taker], this.data.peers[giver]];
      if (taker === giver) return `${one}: own model ${amity.weight(this.data.self[taker] || 0)}`;
      return weight ? `${one} took ${amity.weight(weight)} from ${other}` : `${one} took nothing from ${other}`;
    }
    const name = (bin) => `${this.data.bins[bin]} peers from ${this.data.first[bin]}`;
    const value = this.data.value[taker];
    return `${name(taker)}\ntook ${amity.weight(weight)} from ${name(giver)}\n${this.metric?.name || "accuracy"} ${amity.metric(value, this.metric)}; ${this.data.harmed[taker]} harmed`;
  }

  hover(event) {
    if (!this.data) return;
    const box = this.canvas.node.getBoundingClientRect();
    const { edge, side } = this.frame(this.canvas.width, this.canvas.height);
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const column = Math.floor(((x - edge) / side) * this.count), row = Math.floor(((y - edge) / side) * this.count);
    const inside = column >= 0 && row >= 0 && column < this.count && row < this.count;
    this.at = inside ? [row, column] : null;
    this.canvas.say(inside ? this.words(row, column) : "", x, y);
    this.canvas.touch();
  }

  key(event) {
    const step = { ArrowRight: [0, 1], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowUp: [-1, 0] }[event.key];
    if (!this.data || (!step && event.key !== "Enter")) return;
    event.preventDefault();
    if (!step) { if (this.at && this.data.peers) this.choose(this.data.peers[this.at[0]]); return; }
    const [row, column] = this.at || [0, 0], last = this.count - 1;
    this.at = [Math.min(last, Math.max(0, row + step[0])), Math.min(last, Math.max(0, column + step[1]))];
    const { edge, side } = this.frame(this.canvas.width, this.canvas.height);
    this.canvas.say(this.words(...this.at), edge + (this.at[1] * side) / this.count, edge + (this.at[0] * side) / this.count);
    this.canvas.touch();
  }
};

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
    this.canvas = amity.canvas(stage, "the mixing matrix", (width) => Math.round(Math.min(width, 620)), (...given) => this.draw(...given), (...given) => this.mark(...given));
    const node = this.canvas.node;
    node.addEventListener("pointermove", (event) => this.hover(event));
    node.addEventListener("pointerleave", () => { this.at = null; this.canvas.say(""); this.canvas.touch(); });
    node.addEventListener("click", (event) => { this.hover(event); if (this.at) this.choose(this.peer(this.at[0])); });
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
    this.drawn = "";
    const what = data.peers ? `${this.count} peers` : `${data.count} peers in ${this.count} bins`;
    this.canvas.node.setAttribute("aria-label", `Mixing matrix of ${what} in round ${data.round + 1}, ordered by groups; the strongest square is a weight of ${amity.weight(this.most)}. Arrow keys move, Enter opens the peer of a row.`);
    this.canvas.paint();
  }

  // Drawn once for each round, one dot for each pair, and scaled when painted. Where that would be less
  // than a pixel, dots are fewer and larger, and each shows the strongest of its pairs: none is lost.
  picture(side) {
    const size = Math.max(1, this.count <= side ? this.count : Math.floor(side / 2));
    const key = `${size} ${amity.ink("card")}`;
    if (key === this.drawn) return;
    this.drawn = key;
    this.image.width = this.image.height = size;
    const context = this.image.getContext("2d"), pixels = context.createImageData(size, size);
    const dark = Number.parseInt(amity.ink("card").slice(1, 3), 16) < 128, spot = (at) => Math.floor((at * size) / this.count);
    const [weak, full] = dark ? [[60, 110, 160], [160, 215, 255]] : [[86, 180, 233], [0, 80, 178]];
    for (const [taker, row] of this.rows) {
      for (const [giver, weight] of row) {
        const strong = Math.sqrt(weight / this.most), at = 4 * (spot(taker) * size + spot(giver));
        const alpha = Math.round(60 + 195 * strong);
        if (alpha <= pixels.data[at + 3]) continue;
        for (let part = 0; part < 3; part += 1) pixels.data[at + part] = Math.round(weak[part] + (full[part] - weak[part]) * strong);
        pixels.data[at + 3] = alpha;
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
    this.picture(side);
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
        context.fillStyle = amity.onColour(group);
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
    this.at = inside ? this.strongest(row, column, this.count > side ? Math.ceil(this.count / side) : 0) : null;
    this.canvas.say(inside ? this.words(...this.at) : "", x, y);
    this.canvas.touch();
  }

  // What is meant where pairs are smaller than a pixel: the strongest of those at hand.
  strongest(row, column, reach) {
    let best = [row, column], most = this.rows.get(row)?.get(column) || 0;
    for (let taker = row - reach; reach && taker <= row + reach; taker += 1) {
      for (const [giver, weight] of this.rows.get(taker) || []) {
        if (Math.abs(giver - column) <= reach && weight > most) [best, most] = [[taker, giver], weight];
      }
    }
    return best;
  }

  // The peer of a row; of a bin, its first.
  peer(row) {
    return (this.data.peers || this.data.first)[row];
  }

  key(event) {
    const step = { ArrowRight: [0, 1], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowUp: [-1, 0] }[event.key];
    if (!this.data || (!step && event.key !== "Enter")) return;
    event.preventDefault();
    if (!step) { if (this.at) this.choose(this.peer(this.at[0])); return; }
    const [row, column] = this.at || [0, 0], last = this.count - 1;
    this.at = [Math.min(last, Math.max(0, row + step[0])), Math.min(last, Math.max(0, column + step[1]))];
    const { edge, side } = this.frame(this.canvas.width, this.canvas.height);
    this.canvas.say(this.words(...this.at), edge + (this.at[1] * side) / this.count, edge + (this.at[0] * side) / this.count);
    this.canvas.touch();
  }
};

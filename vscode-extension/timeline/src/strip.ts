// Pixels that are painted one by one and put on the canvas at once: where there is something else in each column, far
// cheaper than rectangles.

import type { Pen } from "./draw";

export type Rgb = readonly [number, number, number];

/** A picture as wide as the lanes, of so many lines, which are stretched over the height that it is painted in. */
export class Strip {
  private readonly canvas = document.createElement("canvas");
  private readonly pen = this.canvas.getContext("2d", { willReadFrequently: true })!;
  private image = this.pen.createImageData(1, 1);
  private pixels = new Uint32Array(this.image.data.buffer);
  private isUsed = false;

  constructor(private readonly lines: number) {}

  /** Begin a picture of so many columns, all clear. */
  begin(width: number): void {
    if (this.image.width !== width) {
      this.canvas.width = width;
      this.canvas.height = this.lines;
      this.image = this.pen.createImageData(width, this.lines);
      this.pixels = new Uint32Array(this.image.data.buffer);
    } else if (this.isUsed) this.pixels.fill(0);
    this.isUsed = false;
  }

  /** Colour the columns `left` to before `right`, from a line down to before another. */
  put(left: number, right: number, colour: number, line = 0, end = this.lines): void {
    const { width } = this.image;
    const [first, last] = [Math.max(0, left), Math.min(width, right)];
    if (first >= last) return;
    for (let start = line * width; start < end * width; start += width) {
      if (last - first === 1) this.pixels[start + first] = colour;
      else this.pixels.fill(colour, start + first, start + last);
    }
    this.isUsed = true;
  }

  /** Paint it, so high. */
  paint(pen: Pen, top: number, high: number): void {
    if (!this.isUsed) return;
    const { width } = this.image;
    this.pen.putImageData(this.image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.globalAlpha = 1;
    pen.drawImage(this.canvas, 0, 0, width, this.lines, 0, top, width, high);
  }
}

const bytes = new Uint8ClampedArray(4);
const word = new Uint32Array(bytes.buffer);

/** A pixel of a colour, as strong as `alpha` says, from 0 to 1. */
export function pixel([red, green, blue]: Rgb, alpha = 1): number {
  bytes[0] = red;
  bytes[1] = green;
  bytes[2] = blue;
  bytes[3] = 255 * alpha;
  return word[0];
}

/** The parts of a colour, however it is written. */
export function rgbOf(colour: string): Rgb {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true })!;
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
  return [red, green, blue];
}

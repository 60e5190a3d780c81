// A line of pixels, stretched over the height of a lane: where bars are narrower than pixels, far cheaper than
// a rectangle for each column.

import type { Pen } from "./draw";

export type Rgb = readonly [number, number, number];

export class Strip {
  private readonly canvas = document.createElement("canvas");
  private readonly pen = this.canvas.getContext("2d", { willReadFrequently: true })!;
  private image = this.pen.createImageData(1, 1);
  private isUsed = false;

  /** Begin a line of so many columns, all clear. */
  begin(width: number): void {
    if (this.image.width !== width) {
      this.canvas.width = width;
      this.canvas.height = 1;
      this.image = this.pen.createImageData(width, 1);
    } else if (this.isUsed) this.image.data.fill(0);
    this.isUsed = false;
  }

  /** Colour a column, as strongly as `alpha` says, from 0 to 1. */
  put(column: number, [red, green, blue]: Rgb, alpha: number): void {
    if (column < 0 || column >= this.image.width) return;
    const { data } = this.image;
    data[4 * column] = red;
    data[4 * column + 1] = green;
    data[4 * column + 2] = blue;
    data[4 * column + 3] = 255 * alpha;
    this.isUsed = true;
  }

  /** Paint the line, so high. */
  paint(pen: Pen, top: number, high: number): void {
    if (!this.isUsed) return;
    const { width } = this.image;
    this.pen.putImageData(this.image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.globalAlpha = 1;
    pen.drawImage(this.canvas, 0, 0, width, 1, 0, top, width, high);
  }
}

/** The parts of a colour, however it is written. */
export function rgbOf(colour: string): Rgb {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true })!;
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
  return [red, green, blue];
}

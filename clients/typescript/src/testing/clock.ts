/**
 * A clock that is moved by hand.
 */

export class FakeClock {
  #nowMs: number;

  constructor(now: Date) {
    this.#nowMs = now.getTime();
  }

  /** The time in ms since 1970. */
  now(): number {
    return this.#nowMs;
  }

  /** Moves the clock forward. */
  advance(ms: number): void {
    if (!(ms >= 0)) {
      throw new RangeError("the clock moves forward only");
    }
    this.#nowMs += ms;
  }
}

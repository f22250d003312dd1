/**
 * Stops on signals: the first one stops gracefully, a second one ends the process at once.
 */

import { constants } from "node:os";

const SIGNALS: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT"];

/** Calls `stop` at the first signal. Returns a function that removes the listeners. */
export function onStopSignals(stop: (signal: NodeJS.Signals) => void): () => void {
  let isStopping = false;
  const listener = (signal: NodeJS.Signals): void => {
    if (isStopping) {
      process.exit(128 + constants.signals[signal]);
    }
    isStopping = true;
    stop(signal);
  };
  SIGNALS.forEach((signal) => process.on(signal, listener));
  return () => SIGNALS.forEach((signal) => process.off(signal, listener));
}

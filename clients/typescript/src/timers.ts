/** The longest time that a timer of Node can have. A longer one would end at once. */
export const TIMER_MAX_MS = 2 ** 31 - 1;

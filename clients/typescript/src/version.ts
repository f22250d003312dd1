/** The version of this package, as in `package.json`. A test compares both. */
export const VERSION = "0.1.0";

/** The user agent of every request. */
export const USER_AGENT = `tidegate-typescript/${VERSION}`;

/**
 * Conditions of changes.
 */

/** The version that must be there for a change. */
export interface Condition {
  /** The `ETag` of the version, in quotes; `"0"` for a policy that was never set. `*`: any version. */
  readonly ifMatch?: string;
  /** `*`: the change only creates. */
  readonly ifNoneMatch?: string;
}

/** @internal */
export function conditionHeaders(condition: Condition): Record<string, string> {
  const headers: Record<string, string> = {};
  if (condition.ifMatch !== undefined) {
    headers["if-match"] = condition.ifMatch;
  }
  if (condition.ifNoneMatch !== undefined) {
    headers["if-none-match"] = condition.ifNoneMatch;
  }
  return headers;
}

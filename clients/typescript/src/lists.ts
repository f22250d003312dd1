/**
 * Lists that come in pages.
 */

import { ServerError } from "./errors.js";
import { queryOf } from "./http/paths.js";
import { type Transport } from "./http/transport.js";
import { type Page } from "./wire/answers.js";
import { fromWire, type JsonObject } from "./wire/names.js";

export interface PageOptions {
  /** How many items a request returns: 1 to 1,000. Default: 100. */
  readonly pageSize?: number;
}

/** @internal Reads all pages, each when it is needed. */
export async function* listPages<T>(
  transport: Transport,
  path: string,
  filter: JsonObject,
  options: PageOptions,
): AsyncGenerator<T, void, undefined> {
  let cursor: string | undefined;
  do {
    const query = queryOf({ ...filter, limit: options.pageSize, cursor });
    const call = { method: "GET" as const, path: query === "" ? path : `${path}?${query}` };
    const page = fromWire<Page<T>>((await transport.sendRepeated(call, "safe")).json());
    yield* page.items;
    if (page.next !== null && page.next === cursor) {
      throw new ServerError({ detail: "the list does not advance: it has a page twice", applied: "no" });
    }
    cursor = page.next ?? undefined;
  } while (cursor !== undefined);
}

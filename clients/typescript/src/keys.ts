/**
 * The API keys of a namespace.
 */

import { encoded } from "./http/paths.js";
import { jsonCall, type Transport } from "./http/transport.js";
import { listPages, type PageOptions } from "./lists.js";
import { type CreatedKey, type KeyDetails, type Scope } from "./wire/answers.js";
import { fromWire, toWire } from "./wire/names.js";
import { type Instant } from "./wire/values.js";

/** A new API key. It cannot allow more than the key of the client. */
export interface NewKey {
  readonly scopes: readonly Scope[];
  /** Its purpose, for people: 1 to 255 bytes. */
  readonly description: string;
  readonly expiresAt?: Instant;
  readonly namespace?: string;
  readonly pool?: string;
}

/** Creates, lists and revokes API keys. Needs the scope `admin`. */
export class Keys {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Creates a key. Only this answer has its secret. */
  async create(key: NewKey): Promise<CreatedKey> {
    return fromWire((await this.#transport.sendRepeated(jsonCall("POST", "/keys", toWire(key)), "once")).json());
  }

  /** The keys of the namespace, without their secrets. */
  list(options: PageOptions = {}): AsyncGenerator<KeyDetails, void, undefined> {
    return listPages(this.#transport, "/keys", {}, options);
  }

  /** Revokes a key: it is refused everywhere within a second, and its waiting requests end with 401. */
  async revoke(id: string): Promise<{ readonly id: string; readonly outcome: string }> {
    const path = `/keys/${encoded("key", id)}`;
    return fromWire((await this.#transport.sendRepeated({ method: "DELETE", path }, "safe")).json());
  }
}

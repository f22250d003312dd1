import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { VERSION } from "../dist/index.js";

test("the version in the code is the version of the package", async () => {
  const text = await readFile(new URL("../package.json", import.meta.url), "utf8");
  assert.equal((JSON.parse(text) as { version: string }).version, VERSION);
});

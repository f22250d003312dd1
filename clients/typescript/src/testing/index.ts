/**
 * For tests of programs that use Tidegate: a fake in memory, and the starter of a real server.
 *
 * @packageDocumentation
 */

export { DevServer, type DevServerOptions } from "./dev-server.js";
export { type FakeOptions, FakeTidegate, type RecordedPublish, type StoredJob } from "./fake.js";

//! Constants of the stored layout that scripts and Rust share. `docs/redis-layout.md` explains them; a test of the
//! store compares them with the scripts.

/// Maximum number of jobs of a chunk, the hash that stores records.
pub const CHUNK_JOBS: u64 = 100;
/// Maximum size of a chunk with several jobs, in bytes, so that changing a record moves few bytes and little allocated
/// memory stays unused.
pub const CHUNK_BYTES: u64 = 8160;
/// Overhead of a hash for each record, in bytes.
pub const FIELD_BYTES: u64 = 6;
/// All job numbers are above this, so that they have at least seven digits.
pub const BEFORE_FIRST_NUMBER: u64 = 1_000_000;

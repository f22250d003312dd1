//! Types and bounds of the keys of a daemon.

use std::time::Duration;

use crate::config::{Bound, ConfigError, Schema};

use crate::launch::settings::Settings;

const TENTH: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_secs(3600);

/// Keys of a pool that have no default.
const OPTIONAL: &str = "[pool.default]\nmigrate_to = \"NAME\"\ndatabase = 0\n";

/// Bounds of a pool's numbers and durations. Those of `buckets` and `slot_ms` are the bounds of the store.
const BOUNDS: [(&str, Bound); 7] = [
    ("buckets", Bound::Number(1, 65_536)),
    ("slot_ms", Bound::Number(100, 86_400_000)),
    // The maximum is the largest body of a job: then bodies are stored in their records.
    ("inline_limit_bytes", Bound::Number(0, 8 << 20)),
    // The maximum exceeds the largest body: then nothing is compressed.
    ("compress_from_bytes", Bound::Number(0, 1 << 30)),
    ("connect_timeout", Bound::Duration(TENTH, HOUR)),
    ("command_timeout", Bound::Duration(TENTH, HOUR)),
    ("database", Bound::Number(0, 65_535)),
];

/// Returns the type and bounds of each key of a daemon. All pools have the keys of the default pool.
///
/// # Errors
/// The built-in defaults are not TOML.
pub fn schema<C: Settings>() -> Result<Schema, ConfigError> {
    if !C::HAS_POOLS {
        return Schema::new(C::DEFAULTS, C::OPTIONAL, C::BOUNDS);
    }
    let optional = [C::OPTIONAL, OPTIONAL].concat();
    let mut schema = Schema::new(C::DEFAULTS, &optional, C::BOUNDS)?;
    for table in [&["pool.*"][..], C::DEPLOYMENTS].concat() {
        schema.copy_table("pool.default", table, &BOUNDS);
    }
    Ok(schema)
}

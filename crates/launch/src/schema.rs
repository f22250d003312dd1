//! What each key of a daemon accepts.

use std::time::Duration;

use tidegate_service::{Bound, ConfigError, Schema};

use crate::recipe::Settings;

const TENTH: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_secs(3600);

/// The keys of a pool without a default.
const OPTIONAL: &str = "[pool.default]\nmigrate_to = \"NAME\"\ndatabase = 0\n";

/// The numbers and durations of a pool. The numbers of a deployment's layout have the bounds of the store.
const BOUNDS: [(&str, Bound); 7] = [
    ("buckets", Bound::Number(1, 65_536)),
    ("slot_ms", Bound::Number(100, 86_400_000)),
    // As large as a job can be: all of them are in their records.
    ("inline_limit_bytes", Bound::Number(0, 8 << 20)),
    // Larger than a job can be: none is compressed.
    ("compress_from_bytes", Bound::Number(0, 1 << 30)),
    ("connect_timeout", Bound::Duration(TENTH, HOUR)),
    ("command_timeout", Bound::Duration(TENTH, HOUR)),
    ("database", Bound::Number(0, 65_535)),
];

/// What each key of a daemon accepts. All pools have the keys of pool default.
///
/// # Errors
/// The built-in defaults are not TOML.
pub fn schema<C: Settings>() -> Result<Schema, ConfigError> {
    let optional = [C::OPTIONAL, OPTIONAL].concat();
    let mut schema = Schema::new(C::DEFAULTS, &optional, C::BOUNDS)?;
    for table in [&["pool.*"][..], C::DEPLOYMENTS].concat() {
        schema.copy_table("pool.default", table, &BOUNDS);
    }
    Ok(schema)
}

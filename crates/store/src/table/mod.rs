//! Tables of entries with revisions: policies, relays and schedules. A table is a hash. The value of a field is a
//! revision, a space, and a text; the field `#` has the last revision of the table.

mod changes;
mod entries;
mod name;
mod revision;
mod row;
mod table_set;
mod value;

pub use self::changes::{TableChanges, TableRows};
pub use self::entries::Table;
pub use self::name::NamespacedName;
pub use self::revision::{InvalidRevision, TableRevision};
pub use self::row::{Damaged, Row};
pub use self::table_set::TableSetOutcome;
pub use self::value::{TableHash, TableValue};

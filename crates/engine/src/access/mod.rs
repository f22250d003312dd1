//! Who may do what, and how often: tokens, API keys, grants and rate limits.

pub(crate) mod api_keys;
pub(crate) mod credential;
pub(crate) mod grant;
pub(crate) mod key_changes;
pub(crate) mod limits;
mod namespace_shares;
pub(crate) mod principal;
pub(crate) mod random_text;
pub(crate) mod revocation;
pub(crate) mod tokens;

pub use namespace_shares::{NamespaceShare, NamespaceShares};

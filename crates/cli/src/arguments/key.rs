//! API keys.

use clap::Subcommand;
use tidegate::Scope;
use tidegate::Timestamp;

use super::choice::choice;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Creates an API key of the namespace, and prints its secret: only now, since the server stores a hash.
    New {
        /// Its purpose, for people.
        description: String,
        /// A scope: publish, consume, read or admin. May be repeated, or have several with commas.
        #[arg(long = "scope", required = true, value_delimiter = ',', value_parser = choice::<Scope>)]
        scopes: Vec<Scope>,
        /// When it expires: 2027-01-01T00:00:00Z. Default: never.
        #[arg(long)]
        expires_at: Option<Timestamp>,
    },
    /// Lists the API keys of the namespace, without their secrets.
    Ls,
    /// Revokes an API key. Servers reject it within a second.
    Revoke {
        /// Its id, as in the list; the secret has it in the middle: tg_ID_….
        id: String,
    },
}

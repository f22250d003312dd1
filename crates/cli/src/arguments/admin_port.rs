//! The admin port of an API, as flags.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct AdminPortArguments {
    /// The admin port of an API.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "TG_ADMIN_URL",
        default_value = "http://127.0.0.1:7778"
    )]
    pub(crate) admin: String,
    /// The account for the admin port. Its password is taken from TG_ADMIN_PASSWORD.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) admin_user: Option<String>,
}

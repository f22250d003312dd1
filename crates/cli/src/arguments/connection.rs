//! The server, the namespace and the key.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ConnectionArguments {
    /// The server.
    #[arg(
        long,
        global = true,
        env = "TG_URL",
        default_value = "http://127.0.0.1:7777"
    )]
    pub(crate) url: String,
    /// The namespace.
    #[arg(long, global = true, env = "TG_NAMESPACE", default_value = "default")]
    pub(crate) namespace: String,
    /// The API key. Other users of the machine can see flags, so prefer the variable TG_KEY.
    #[arg(
        long = "api-key",
        global = true,
        env = "TG_KEY",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) api_key: String,
}

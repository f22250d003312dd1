//! The flags of `cargo xtask dev`.

/// The flags of `dev`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Port of the API on 127.0.0.1.
    #[arg(long, default_value_t = 7777)]
    pub(crate) port: u16,
    /// Admin port of the API on 127.0.0.1.
    #[arg(long, default_value_t = 7778)]
    pub(crate) admin_port: u16,
    /// Use this Redis (redis://HOST:PORT) instead of starting one. It is not stopped at the end.
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Option<String>,
    /// Use a private Redis Cluster: three primaries with one replica each. Its data are deleted at
    /// the end.
    #[arg(long, conflicts_with = "redis")]
    pub(crate) cluster: bool,
    /// Number of pumps.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) pumps: u8,
    /// Build with the release profile.
    #[arg(long)]
    pub(crate) release: bool,
}

//! The two wires, and the limits of their requests.

use clap::ValueEnum;

/// Jobs per bulk publish: the maximum of lmstfy.
pub(crate) const BULK: u64 = 64;

/// The HTTP API that a run uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Wire {
    /// The wire of lmstfy, `/api`
    Lmstfy,
    /// The native wire, `/v1`
    Native,
}

impl Wire {
    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lmstfy => "lmstfy",
            Self::Native => "native",
        }
    }

    /// Jobs per consume of several jobs: the maximum of lmstfy, and as many as a native batch.
    pub(crate) const fn jobs_per_consume(self) -> usize {
        match self {
            Self::Lmstfy => 100,
            Self::Native => 64,
        }
    }

    /// The status of a publish of several jobs.
    pub(crate) const fn bulk_status(self) -> u16 {
        match self {
            Self::Lmstfy => 201,
            Self::Native => 200,
        }
    }
}

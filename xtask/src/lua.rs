//! `cargo xtask lua`: prints a script as Redis gets it.

use std::fs;
use std::process::ExitCode;

use clap::Args;

use crate::workspace::Workspace;

#[path = "../../crates/store/build/scripts/mod.rs"]
mod scripts;

/// The flags of `lua`.
#[derive(Debug, Args)]
pub(crate) struct LuaOptions {
    /// The name of the script, such as publish
    name: String,
    /// The width of the slots of the deployment, in ms
    #[arg(long, default_value_t = 65_536, value_name = "MS")]
    slot_ms: u32,
}

pub(crate) fn run(workspace: &Workspace, options: &LuaOptions) -> ExitCode {
    let lua = workspace.root().join("lua");
    let read = |name: &str| fs::read_to_string(lua.join(format!("{name}.lua")));
    match scripts::script_text(&options.name, &read) {
        Ok(text) => {
            print!("{}", text.replace("SLOT_MS", &options.slot_ms.to_string()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!(
                "error: failed to read {} or a file that it includes: {error}",
                options.name
            );
            ExitCode::FAILURE
        }
    }
}

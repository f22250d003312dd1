//! Writes the text of each script, as Redis gets it: `OUT_DIR/VERB.lua`.
#![allow(clippy::print_stdout, reason = "cargo reads what build scripts print")]

mod scripts;

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = |variable| env::var_os(variable).unwrap_or_default();
    let lua = Path::new(&folder("CARGO_MANIFEST_DIR")).join("../../lua");
    println!("cargo::rerun-if-changed={}", lua.display());
    let read = |name: &str| fs::read_to_string(lua.join(format!("{name}.lua")));
    for file in fs::read_dir(&lua)? {
        let path = file?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if fs::read_to_string(&path)?.starts_with("#!lua") {
            let text = scripts::script_text(&name, &read)?;
            fs::write(
                Path::new(&folder("OUT_DIR")).join(format!("{name}.lua")),
                text,
            )?;
        }
    }
    Ok(())
}

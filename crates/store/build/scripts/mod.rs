//! The texts of scripts as Redis gets them, from the files in `lua`.
//!
//! - `--- include changes, waiting` gives a file the functions of these shared files, and of those that they include.
//! - A shared file has blocks between blank lines. A script gets those that it uses, directly or by others.
//! - A name in capitals is a constant: its value stands in its place.
//! - `rarely().delete(…)` calls a function that is defined by the first call of this form.
//!
//! Redis runs the whole text at each call: a definition costs time although nothing uses it, and Lua 5.1 walks a list
//! for each variable that a function uses. Without any one of the last three rules, calls take 15 to 70 % longer
//! (`docs/decisions/0016-few-commands.md`).

mod constants;
mod tokens;

use std::collections::BTreeSet;
use std::io;

use self::tokens::{code_of, fields_behind, names_in};

const INCLUDE: &str = "--- include ";
const RARELY: &str = "rarely().";

/// The text of a script, with `SLOT_MS` for the slot width. `read` reads the file with a name.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn script_text(
    name: &str,
    read: &impl Fn(&str) -> io::Result<String>,
) -> io::Result<String> {
    let file = read(name)?;
    // Redis reads the flags of a script from its first line.
    let (shebang, body) = file.split_once('\n').unwrap_or((&file, ""));
    let mut files = Vec::new();
    include(body, read, &mut files)?;
    let blocks = files.iter().flat_map(|(_, file)| Block::all_of(file));
    let blocks: Vec<Block> = blocks.collect();
    let script = code_of(body);
    let (used, others) = split(blocks.iter().collect(), names_in(&script));
    let text = with_rarely(&text_of(&used), &script, others);
    let text = constants::replaced_by_values(&text);
    Ok(format!("{shebang}\n{text}\n"))
}

/// Adds the files that a file includes, each behind those that it includes itself.
fn include(
    file: &str,
    read: &impl Fn(&str) -> io::Result<String>,
    files: &mut Vec<(String, String)>,
) -> io::Result<()> {
    let lists = file.lines().filter_map(|line| line.strip_prefix(INCLUDE));
    for name in lists.flat_map(|names| names.split(", ")) {
        if files.iter().all(|(known, _)| known != name) {
            let file = read(name)?;
            include(&file, read, files)?;
            files.push((name.to_owned(), file));
        }
    }
    Ok(())
}

/// The code of a script behind the code that it always uses, and between them the function `rarely` if there are calls
/// of it.
fn with_rarely(used: &str, script: &str, others: Vec<&Block>) -> String {
    let code = [used, script].concat();
    let mut called = fields_behind(RARELY, &code);
    if called.is_empty() {
        return code;
    }
    let rare = loop {
        let rare = text_of(&split(others.clone(), called.clone()).0);
        let by_rare = fields_behind(RARELY, &rare);
        if by_rare.is_subset(&called) {
            break rare;
        }
        called.extend(by_rare);
    };
    let fields: Vec<String> = called
        .iter()
        .map(|name| format!("{name} = {name}"))
        .collect();
    let fields = fields.join(", ");
    format!(
        "local rarely, rare\n{used}rarely = function()\nif not rare then\n{rare}rare = {{ {fields} }}\nend\nreturn rare\nend\n{script}"
    )
}

/// A part of a shared file between two blank lines, without comments.
struct Block {
    code: String,
    defines: BTreeSet<String>,
}

impl Block {
    /// The blocks of a file that have code.
    fn all_of(file: &str) -> impl Iterator<Item = Self> {
        let codes = file.split("\n\n").map(code_of);
        codes.filter(|code| !code.is_empty()).map(|code| {
            let lines = code.lines().filter_map(|line| line.strip_prefix("local "));
            let names = lines.map(|line| line.strip_prefix("function ").unwrap_or(line));
            let names = names.filter_map(|line| line.split(['=', '(']).next());
            let defines = names.flat_map(names_in).collect();
            Self { code, defines }
        })
    }
}

/// Splits blocks into those that define one of these names, or a name that such a block uses, and the others.
fn split(blocks: Vec<&Block>, mut names: BTreeSet<String>) -> (Vec<&Block>, Vec<&Block>) {
    let (mut used, mut others) = (Vec::new(), Vec::new());
    for block in blocks.into_iter().rev() {
        if block.defines.is_disjoint(&names) {
            others.push(block);
        } else {
            names.extend(names_in(&block.code));
            used.push(block);
        }
    }
    used.reverse();
    others.reverse();
    (used, others)
}

fn text_of(blocks: &[&Block]) -> String {
    blocks
        .iter()
        .map(|block| format!("{}\n", block.code))
        .collect()
}

#[cfg(test)]
mod tests;

//! Assembling the text of a script from its file and the shared files.
//!
//! Redis runs the whole text of a script at each call. What it costs is what the text defines, even if it is not used: a
//! function 0.1 to 0.5 µs, the more the more outer variables the functions of the text use, since Lua 5.1 searches them in a
//! list (`docs/decisions/0016-few-commands.md`). So a script contains
//!
//! - only those blocks of the shared files that it uses. Blocks are separated by blank lines. One is used if a name that it
//!   defines occurs in the script, or in a used block behind it;
//! - constants as values, not as variables ([`constants`]);
//! - functions that are called rarely inside one function, which defines them when the first of them is called ([`rare`]).

mod constants;
mod rare;
mod source;

use std::collections::BTreeSet;

use tidegate_core::SlotWidth;

use self::source::{SharedBlock, words_of};

/// The files that scripts share. Each uses only those before it.
const SHARED: [&str; 7] = [
    include_str!("../../../../lua/prelude.lua"),
    include_str!("../../../../lua/records.lua"),
    include_str!("../../../../lua/changes.lua"),
    include_str!("../../../../lua/versions.lua"),
    include_str!("../../../../lua/idempotency.lua"),
    include_str!("../../../../lua/waiting.lua"),
    include_str!("../../../../lua/settle.lua"),
];

/// The text of a script for a deployment with this slot width.
pub(crate) fn assemble(file: &str, slots: SlotWidth) -> String {
    let text = assemble_with(&SHARED, file);
    constants::replaced_by_values(&text, ("SLOT_MS", slots.ms()))
}

fn assemble_with(shared: &[&str], file: &str) -> String {
    // Redis reads the flags of a script from its first line.
    let (shebang, script) = file.split_once('\n').unwrap_or((file, ""));
    let script = source::code_of(script);
    let files = shared.iter().chain([&file]);
    let rare: BTreeSet<&str> = files.flat_map(|file| rare::rarely_called(file)).collect();
    let blocks = shared
        .iter()
        .flat_map(|file| SharedBlock::all_of(file))
        .collect();
    let (always, others) = split(blocks, &script, |block| !block.defines_any(&rare));
    let text = rare::with_rare_functions(&always, others, &rare, &script);
    format!("{shebang}\n{text}")
}

/// Splits blocks into those that a text uses, directly or by others of them, and the rest. Only candidates are used.
fn split(
    blocks: Vec<SharedBlock>,
    text: &str,
    is_candidate: impl Fn(&SharedBlock) -> bool,
) -> (Vec<SharedBlock>, Vec<SharedBlock>) {
    let mut words: BTreeSet<String> = words_of(text).map(str::to_owned).collect();
    let (mut used, mut others) = (Vec::new(), Vec::new());
    for block in blocks.into_iter().rev() {
        if is_candidate(&block) && block.defines_any(&words) {
            words.extend(words_of(&block.code).map(str::to_owned));
            used.push(block);
        } else {
            others.push(block);
        }
    }
    used.reverse();
    others.reverse();
    (used, others)
}

#[cfg(test)]
mod tests;

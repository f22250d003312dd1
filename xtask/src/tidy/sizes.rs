//! Limits on the length of files. (Clippy limits functions: `too-many-lines-threshold` in clippy.toml.)

use super::finding::TidyFinding;
use super::tree::{SourceFile, SourceTree};

const RUST_LINES: usize = 400;
const TEST_LINES: usize = 600;
const LUA_LINES: usize = 200;

pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    tree.files.iter().filter_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Option<TidyFinding> {
    let limit = match file.extension() {
        "rs" if file.is_test() => TEST_LINES,
        "rs" => RUST_LINES,
        "lua" => LUA_LINES,
        _ => return None,
    };
    let lines = file.lines().count();
    let message = || format!("{lines} lines, more than the limit of {limit}: split the file");
    (lines > limit).then(|| TidyFinding::new(&file.path, lines, message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_found() {
        let lines = |count: usize| "line\n".repeat(count);
        let tree = SourceTree::from_files(&[
            ("crates/a/src/lib.rs", &lines(400)),
            ("crates/a/src/long.rs", &lines(401)),
            ("crates/a/tests/it.rs", &lines(600)),
            ("lua/ack.lua", &lines(201)),
            ("lua/prelude.lua", &lines(200)),
            ("docs/long.md", &lines(1000)),
        ]);
        let found: Vec<_> = check(&tree)
            .into_iter()
            .map(|finding| (finding.path, finding.line))
            .collect();
        assert_eq!(
            found,
            [
                ("crates/a/src/long.rs".to_owned(), 401),
                ("lua/ack.lua".to_owned(), 201)
            ]
        );
    }
}

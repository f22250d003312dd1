//! docs/redis-layout.md has a fingerprint of the contracts of all scripts. A change of a contract fails the check until
//! the page is updated.

use sha2::{Digest, Sha256};

use super::finding::TidyFinding;
use super::tree::{SourceFile, SourceTree};

const PAGE: &str = "docs/redis-layout.md";
const LABEL: &str = "Fingerprint of the contracts: ";

pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let Some(page) = tree.get(PAGE) else {
        return vec![TidyFinding::new(PAGE, 1, "file is missing")];
    };
    let wanted = format!("{LABEL}`{}`", fingerprint(tree));
    if page.lines().any(|(_, line)| line == wanted) {
        return Vec::new();
    }
    let old = page.lines().find(|(_, line)| line.starts_with(LABEL));
    let line = old.map_or(1, |(number, _)| number);
    let message = format!(
        "the contract of a script has changed: update this page; if stored data change, follow its section on new \
         layouts; then insert the line {wanted}"
    );
    vec![TidyFinding::new(PAGE, line, message)]
}

/// Returns a hash of the contracts of all scripts.
fn fingerprint(tree: &SourceTree) -> String {
    let mut hash = Sha256::new();
    for file in tree.with_extension("lua") {
        hash.update(file.name());
        for line in contract(file) {
            hash.update(line);
            hash.update("\n");
        }
    }
    let hash = hash.finalize();
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the lines of the contract: the comment after the shebang of a script.
fn contract(file: &SourceFile) -> impl Iterator<Item = &str> {
    let lines = file.text.lines().skip_while(|line| line.starts_with("#!"));
    lines.take_while(|line| line.starts_with("-- "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(script: &str, page: &str) -> Vec<String> {
        let tree = SourceTree::from_files(&[("lua/a.lua", script), (PAGE, page)]);
        check(&tree).iter().map(TidyFinding::to_string).collect()
    }

    #[test]
    fn a_changed_contract_is_found_and_changed_code_is_not() {
        let script = "#!lua\n-- a: does it\n-- KEYS[1] one\nreturn 1\n";
        let said = found(script, "# Layout\n");
        let wanted = said[0].rsplit_once("the line ").unwrap().1;
        assert!(said[0].starts_with("docs/redis-layout.md:1:"), "{said:?}");
        assert_eq!(found(script, &format!("# Layout\n\n{wanted}\n")), [""; 0]);
        let other_code = script.replace("return 1", "return 2");
        assert_eq!(found(&other_code, wanted), [""; 0]);
        let other_contract = script.replace("one", "two");
        assert_eq!(found(&other_contract, wanted).len(), 1);
    }
}

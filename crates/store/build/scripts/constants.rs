//! Constants, whose values stand in their places.

use std::collections::BTreeMap;

use super::tokens::with_names_replaced;

/// The constant that is known when a script is loaded: the slot width of the deployment, in ms.
const GIVEN: &str = "SLOT_MS";

/// The code with the values of its constants, and without their definitions: lines `local NAME, NAME = value, value`
/// whose values are numbers, strings, or sums, products and powers of numbers and other constants.
pub(super) fn replaced_by_values(code: &str) -> String {
    let mut constants = BTreeMap::new();
    let mut lines = Vec::new();
    for line in code.lines() {
        let line = with_names_replaced(line, |name| constants.get(name).cloned());
        match defined_in(&line) {
            Some(defined) => constants.extend(defined),
            None => lines.push(line),
        }
    }
    lines.join("\n")
}

fn defined_in(line: &str) -> Option<Vec<(String, String)>> {
    let (names, values) = line.strip_prefix("local ")?.split_once(" = ")?;
    let names: Vec<&str> = names.split(", ").collect();
    let values: Vec<&str> = values.split(", ").collect();
    let are_constants = names.len() == values.len()
        && names.iter().all(|name| is_name_of_constant(name))
        && values.iter().all(|value| is_constant(value));
    let pairs = names.into_iter().zip(values);
    are_constants.then(|| {
        pairs
            .map(|(name, value)| (name.to_owned(), as_operand(name, value)))
            .collect()
    })
}

fn is_name_of_constant(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(is_allowed)
}

fn is_constant(value: &str) -> bool {
    let is_text = value.len() >= 2 && value.starts_with('\'') && value.ends_with('\'');
    let is_allowed = |c: char| c.is_ascii_digit() || " +-*^().".contains(c);
    is_text || value.replace(GIVEN, "").chars().all(is_allowed)
}

fn as_operand(name: &str, value: &str) -> String {
    match value {
        _ if name == GIVEN => GIVEN.to_owned(),
        value if value.contains(' ') => format!("({value})"),
        value => value.to_owned(),
    }
}

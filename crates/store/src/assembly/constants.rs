//! Constants are replaced by their values: variables that functions use cost time at each call.

use std::collections::BTreeMap;

use super::source::with_words_replaced;

/// The code with the values of its constants, and without their definitions: lines `local NAME, NAME = value, value` whose
/// values are numbers, strings, or sums, products and powers of numbers and other constants. The value of one of them is
/// given, whatever the code says.
pub(super) fn replaced_by_values(code: &str, given: (&str, u32)) -> String {
    let definition_of_given = format!("local {} = ", given.0);
    let mut constants = BTreeMap::from([(given.0.to_owned(), given.1.to_string())]);
    let mut lines = Vec::new();
    for line in code
        .lines()
        .filter(|line| !line.starts_with(&definition_of_given))
    {
        let line = with_words_replaced(line, |word| constants.get(word).cloned());
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
            .map(|(name, value)| (name.to_owned(), as_operand(value)))
            .collect()
    })
}

fn is_name_of_constant(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(is_allowed)
}

fn is_constant(value: &str) -> bool {
    let is_text = value.len() >= 2 && value.starts_with('\'') && value.ends_with('\'');
    is_text
        || value
            .chars()
            .all(|c| c.is_ascii_digit() || " +-*^().".contains(c))
}

fn as_operand(value: &str) -> String {
    match value.contains(' ') {
        true => format!("({value})"),
        false => value.to_owned(),
    }
}

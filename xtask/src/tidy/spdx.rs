//! Reading licence expressions such as `(MIT OR Apache-2.0) AND Unicode-3.0`.

/// Whether somebody who accepts what `accepts` says can accept the whole expression. One that cannot be read is refused.
pub(crate) fn is_acceptable(expression: &str, accepts: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader {
        words: &words,
        accepts,
    };
    reader.any_of() == Some(true) && reader.words.is_empty()
}

struct Reader<'a> {
    words: &'a [&'a str],
    accepts: &'a dyn Fn(&str) -> bool,
}

impl Reader<'_> {
    fn take(&mut self, word: &str) -> bool {
        let is_next = self.words.first() == Some(&word);
        if is_next {
            self.words = &self.words[1..];
        }
        is_next
    }

    fn any_of(&mut self) -> Option<bool> {
        let mut answer = self.all_of()?;
        while self.take("OR") {
            answer |= self.all_of()?;
        }
        Some(answer)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut answer = self.one()?;
        while self.take("AND") {
            answer &= self.one()?;
        }
        Some(answer)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let answer = self.any_of()?;
            return self.take(")").then_some(answer);
        }
        let (name, rest) = self.words.split_first()?;
        self.words = rest;
        if self.take("WITH") {
            let (exception, rest) = self.words.split_first()?;
            self.words = rest;
            return Some((self.accepts)(&format!("{name} WITH {exception}")));
        }
        Some((self.accepts)(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read() {
        let accepts = |name: &str| ["A", "B", "A WITH X"].contains(&name);
        for good in [
            "A",
            "A OR C",
            "C OR A",
            "A/C",
            "A AND B",
            "(A OR C) AND B",
            "A WITH X",
            "C WITH X OR B",
        ] {
            assert!(is_acceptable(good, &accepts), "{good}");
        }
        for bad in [
            "",
            "C",
            "A AND C",
            "(A",
            "A B",
            "A WITH",
            "B WITH X",
            "(A OR B) AND C",
        ] {
            assert!(!is_acceptable(bad, &accepts), "{bad}");
        }
    }
}

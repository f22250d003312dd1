//! How many files and sockets this process may have open at a time.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes as many as the system lets this process have. Unless asked it gives fewer, 1024 as a rule, for the
/// sake of programs that use `select`. Answers how many there may be now; `None` = without bound.
///
/// # Errors
/// The system refuses; everything stays as it was.
pub fn raise_open_files() -> io::Result<Option<u64>> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let raised = Rlimit {
            current: maximum,
            maximum,
        };
        setrlimit(Resource::Nofile, raised)?;
    }
    Ok(maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_may_be_had_is_taken() {
        let before = getrlimit(Resource::Nofile);
        let few = Rlimit {
            current: Some(512),
            ..before
        };
        setrlimit(Resource::Nofile, few).unwrap();
        assert_eq!(raise_open_files().unwrap(), before.maximum);
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
    }
}

//! Comparing with another server: `cargo xtask bench --vs URL`.

/// The scenarios that every server of the lmstfy wire can be measured with.
const COMPARABLE: [&str; 7] = [
    "publish", "consume", "bulk", "burst", "lateness", "parked", "memory",
];
/// The scenarios that take minutes only, and leave no jobs behind.
const BY_DEFAULT: [&str; 3] = ["publish", "consume", "burst"];

/// The flags of a comparison.
#[derive(Debug, clap::Args)]
pub(crate) struct VersusOptions {
    /// Compare with this server of the lmstfy wire, in turns: A is this server, B is Tidegate
    /// [default scenarios: publish consume burst]
    #[arg(long, value_name = "URL", requires = "vs_admin")]
    vs: Option<String>,
    /// Its admin port, where a token is created
    #[arg(long, value_name = "URL", requires = "vs")]
    vs_admin: Option<String>,
    /// Its Redis, for the memory of jobs
    #[arg(long, value_name = "URL", requires = "vs")]
    vs_redis: Option<String>,
    /// One of its processes on this machine, for CPU time; repeatable. Names are compared: api, redis
    #[arg(long, value_name = "NAME=PID", requires = "vs")]
    vs_pid: Vec<String>,
}

impl VersusOptions {
    /// The flags of the load generator for the server; empty if there is none.
    pub(crate) fn flags(&self) -> Vec<String> {
        let addresses = [
            ("--target", &self.vs),
            ("--admin", &self.vs_admin),
            ("--redis", &self.vs_redis),
        ];
        let addresses = addresses
            .into_iter()
            .filter_map(|(flag, value)| Some((flag, value.as_ref()?)));
        let processes = self.vs_pid.iter().map(|process| ("--pid", process));
        let all = addresses.chain(processes);
        all.flat_map(|(flag, value)| [flag.to_owned(), value.clone()])
            .collect()
    }

    /// The named scenarios that are run; empty = all.
    ///
    /// # Errors
    /// A named scenario measures a function that other servers do not have.
    pub(crate) fn scenarios<'a>(&self, named: &'a [String]) -> Result<Vec<&'a str>, String> {
        let named: Vec<&str> = named.iter().map(String::as_str).collect();
        if self.vs.is_none() {
            return Ok(named);
        }
        if named.is_empty() {
            return Ok(BY_DEFAULT.to_vec());
        }
        match named.iter().find(|name| !COMPARABLE.contains(name)) {
            Some(name) => Err(format!(
                "{name} cannot be compared with another server; with --vs there are {}",
                COMPARABLE.join(", ")
            )),
            None => Ok(named),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn options(flags: &[&str]) -> Result<VersusOptions, clap::Error> {
        let command = VersusOptions::augment_args(clap::Command::new("bench"));
        let matches = command.try_get_matches_from([&["bench"], flags].concat())?;
        VersusOptions::from_arg_matches(&matches)
    }

    #[test]
    fn the_other_server_is_the_target_and_only_what_it_has_is_compared() {
        let flags = [
            "--vs",
            "http://a",
            "--vs-admin",
            "http://b",
            "--vs-pid",
            "api=1",
        ];
        let options = options(&flags).unwrap();
        let expected = [
            "--target", "http://a", "--admin", "http://b", "--pid", "api=1",
        ];
        assert_eq!(options.flags(), expected);
        assert_eq!(options.scenarios(&[]), Ok(BY_DEFAULT.to_vec()));
        let named = ["lateness".to_owned(), "lanes".to_owned()];
        assert_eq!(options.scenarios(&named[..1]), Ok(vec!["lateness"]));
        let error = options.scenarios(&named).unwrap_err();
        assert!(
            error.contains("lanes") && error.contains("parked"),
            "{error}"
        );
    }

    #[test]
    fn without_a_server_nothing_is_compared_and_its_flags_are_refused() {
        let none = options(&[]).unwrap();
        assert_eq!(none.scenarios(&["lanes".to_owned()]), Ok(vec!["lanes"]));
        assert_eq!(none.scenarios(&[]), Ok(Vec::new()));
        assert!(none.flags().is_empty());
        for flags in [&["--vs-admin", "http://b"][..], &["--vs", "http://a"]] {
            let error = options(flags).unwrap_err().to_string();
            assert!(error.contains("--vs"), "{error}");
        }
    }
}

//! The files that the API needs beside those for connections of clients.
//!
//! ```text
//!  public port │ admin port │ 128 for each Redis │ 64
//! ```

use tidegate_service::{FilesNeeded, ListenLimits, OPEN_FILES_OF_A_PROCESS};
use tidegate_store::OPEN_FILES_OF_A_STORE;

use crate::config::Config;

/// Connections of clients cannot use those of everything else.
pub(crate) fn files_needed(config: &Config) -> FilesNeeded<'_> {
    let redis = config.pool.len() + usize::from(config.admin_store.is_some());
    let admin = ListenLimits::default().open_files();
    FilesNeeded {
        listener: "public",
        limits: &config.connections,
        others: admin + OPEN_FILES_OF_A_STORE * redis as u64 + OPEN_FILES_OF_A_PROCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: &str = include_str!("../../../deploy/systemd/tidegate-api.service");

    #[test]
    fn the_unit_of_systemd_allows_as_many_files_as_the_defaults_need() {
        let mut lines = UNIT.lines();
        let limit = lines.find_map(|line| line.strip_prefix("LimitNOFILE="));
        let files_max: u64 = limit.unwrap().parse().unwrap();
        let config = Config::defaults();
        let needed = files_needed(&config);
        assert!(files_max >= needed.all(), "{}", needed.all());
        let limits = needed.within(files_max).unwrap();
        assert_eq!(limits.connections_max, config.connections.connections_max);
    }

    #[test]
    fn what_is_kept_for_others_is_not_given_to_clients() {
        let mut config = Config::defaults();
        let pool = config.pool["default"].clone();
        let alone = files_needed(&config).within(1024).unwrap();
        assert!(alone.open_files() + files_needed(&config).others <= 1024);
        config.pool.insert("more".to_owned(), pool.clone());
        config.admin_store = Some(pool);
        let needed = files_needed(&config);
        let with_more = needed.within(1024).unwrap();
        let given_up = alone.connections_max - with_more.connections_max;
        assert_eq!(given_up as u64, 2 * OPEN_FILES_OF_A_STORE);
        let refused = needed.within(600).unwrap_err().to_string();
        assert!(refused.contains("limit of open files is 600"), "{refused}");
        assert!(refused.contains(&needed.all().to_string()), "{refused}");
    }
}

//! The number of open files that the API needs besides the connections of clients.
//!
//! ```text
//!  public port │ admin port │ port for Youzan's protocol │ 128 for each Redis │ 4 for each further thread │ 64
//! ```

use tidegate_daemon::{
    ListenLimits, OPEN_FILES_OF_A_PROCESS, OPEN_FILES_OF_A_THREAD, OpenFileBudget,
};
use tidegate_store::OPEN_FILES_OF_A_STORE;

use crate::config::ApiConfig;

/// The open files for the public listener, and those reserved for everything else, which clients cannot use up.
pub(crate) fn files_needed(config: &ApiConfig) -> OpenFileBudget<'_> {
    let redis = config.pool.len() + usize::from(config.admin_store.is_some());
    let admin = ListenLimits::default().open_files();
    let youzan = config.youzan.limits(&config.connections);
    let youzan = youzan.map_or(0, |limits| limits.open_files());
    let threads = OPEN_FILES_OF_A_THREAD * u64::from(config.threads.saturating_sub(1));
    let of_process = OPEN_FILES_OF_A_PROCESS + threads;
    OpenFileBudget {
        listener: "public",
        limits: &config.connections,
        others: admin + youzan + OPEN_FILES_OF_A_STORE * redis as u64 + of_process,
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
        let config = ApiConfig::defaults();
        let needed = files_needed(&config);
        assert!(files_max >= needed.total(), "{}", needed.total());
        let limits = needed.limits_within(files_max).unwrap();
        assert_eq!(limits.connections_max, config.connections.connections_max);
    }

    #[test]
    fn what_is_kept_for_others_is_not_given_to_clients() {
        let mut config = ApiConfig::defaults();
        let pool = config.pool["default"].clone();
        let alone = files_needed(&config).limits_within(1024).unwrap();
        assert!(alone.open_files() + files_needed(&config).others <= 1024);
        config.pool.insert("more".to_owned(), pool.clone());
        config.admin_store = Some(pool);
        let needed = files_needed(&config);
        let with_more = needed.limits_within(1024).unwrap();
        let given_up = alone.connections_max - with_more.connections_max;
        assert_eq!(given_up as u64, 2 * OPEN_FILES_OF_A_STORE);
        let refused = needed.limits_within(600).unwrap_err().to_string();
        assert!(refused.contains("limit of open files is 600"), "{refused}");
        assert!(refused.contains(&needed.total().to_string()), "{refused}");
        config.threads = 9;
        let with_threads = files_needed(&config).limits_within(1024).unwrap();
        let given_up = with_more.connections_max - with_threads.connections_max;
        assert_eq!(given_up as u64, 8 * OPEN_FILES_OF_A_THREAD);
    }
}

//! The limit of open files: the files that the pump needs besides connections to its admin port.

use tidegate_daemon::{ListenLimits, OPEN_FILES_OF_A_PROCESS, OpenFileBudget};
use tidegate_store::OPEN_FILES_OF_A_STORE;

use crate::config::PumpdConfig;

/// The files that the daemon needs. They are reserved, so that clients of the admin port, bounded by `limits`, cannot
/// use them.
pub(crate) fn files_needed<'a>(
    config: &PumpdConfig,
    limits: &'a ListenLimits,
) -> OpenFileBudget<'a> {
    OpenFileBudget {
        listener: "admin",
        limits,
        others: OPEN_FILES_OF_A_STORE * config.pool.len() as u64 + OPEN_FILES_OF_A_PROCESS,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_daemon::parse_toml;

    use super::*;

    const UNIT: &str = include_str!("../../../deploy/systemd/tidegate-pumpd.service");

    fn defaults() -> PumpdConfig {
        let defaults = parse_toml(crate::DEFAULTS).unwrap();
        defaults.try_into().unwrap()
    }

    #[test]
    fn the_unit_of_systemd_allows_as_many_files_as_twenty_pools_need() {
        let mut lines = UNIT.lines();
        let limit = lines.find_map(|line| line.strip_prefix("LimitNOFILE="));
        let files_max: u64 = limit.unwrap().parse().unwrap();
        let mut config = defaults();
        let pool = config.pool["default"].clone();
        for number in 1..20 {
            config.pool.insert(format!("pool{number}"), pool.clone());
        }
        let limits = ListenLimits::default();
        let needed = files_needed(&config, &limits);
        assert!(files_max >= needed.total(), "{}", needed.total());
    }

    #[test]
    fn files_of_redis_are_not_given_to_clients_of_the_admin_port() {
        let (mut config, limits) = (defaults(), ListenLimits::default());
        let alone = files_needed(&config, &limits).limits_within(400).unwrap();
        let pool = config.pool["default"].clone();
        config.pool.insert("more".to_owned(), pool);
        let with_more = files_needed(&config, &limits).limits_within(400).unwrap();
        let given_up = alone.connections_max - with_more.connections_max;
        assert_eq!(given_up as u64, OPEN_FILES_OF_A_STORE);
    }
}

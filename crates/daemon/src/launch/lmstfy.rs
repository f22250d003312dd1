//! Translates configuration files of lmstfy to our keys, and reports unused keys.

mod section;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use crate::config::parse_toml;
use toml::{Table, Value};

use section::LmstfySection;

/// lmstfy's default for `AdminHost`.
const ADMIN_HOST: &str = "127.0.0.1";

/// lmstfy's keys of job settings, our keys, and the largest values.
const JOB_KEYS: [(&str, &str, u32); 5] = [
    ("TTLSecond", "ttl_seconds", u32::MAX),
    ("DelaySecond", "delay_seconds", u32::MAX),
    ("TriesNum", "tries", u16::MAX as u32),
    ("TTRSecond", "ttr_seconds", u32::MAX),
    ("TimeoutSecond", "timeout_seconds", u32::MAX),
];

/// A translated file. It may hold secrets, so there is no `Debug`.
#[derive(Default)]
pub(crate) struct LmstfySettings {
    /// The settings under our keys.
    pub(crate) values: Table,
    /// One sentence for each setting that is not used, with the reason.
    pub(crate) remarks: Vec<String>,
}

/// Translates the text of an lmstfy configuration file.
///
/// # Errors
/// The text is not TOML, or a key is missing, has the wrong type, or has an invalid value. The
/// message names the key.
pub(crate) fn translate(text: &str) -> Result<LmstfySettings, String> {
    let file = parse_toml(text)?;
    let mut file = LmstfySection::new("", &file)?;
    let mut found = LmstfySettings::default();
    listeners(&mut file, &mut found)?;
    logs(&mut file, &mut found)?;
    accounts(&mut file, &mut found)?;
    job(&mut file, &mut found)?;
    pools(&mut file, &mut found)?;
    found.unknown(&file);
    Ok(found)
}

impl LmstfySettings {
    /// Keeps the settings of one daemon: these keys, and tables with these names. Adds a remark
    /// about the others.
    pub(crate) fn keep_only(mut self, keys: &[&str], program: &str) -> Self {
        let mut others = std::mem::take(&mut self.values);
        for path in keys {
            let (table, key) = path.split_once('.').unwrap_or(("", path));
            let from = match table {
                "" => Some(&mut others),
                table => others.get_mut(table).and_then(Value::as_table_mut),
            };
            if let Some(value) = from.and_then(|table| table.remove(key)) {
                self.set(path, value);
            }
        }
        let unused = others.iter().flat_map(|(name, value)| match value {
            Value::Table(table) if name == "log" => {
                table.keys().map(|key| format!("{name}.{key}")).collect()
            }
            _ => vec![name.clone()],
        });
        let unused: Vec<String> = unused.collect();
        if !unused.is_empty() {
            let unused = unused.join(", ");
            self.add_remark(format!("not used by {program}: {unused}"));
        }
        self
    }

    /// Sets a key, given as a dotted path.
    fn set(&mut self, key: &str, value: impl Into<Value>) {
        let (tables, key) = key.rsplit_once('.').unwrap_or(("", key));
        let tables: Vec<&str> = tables.split('.').filter(|part| !part.is_empty()).collect();
        self.set_in(&tables, key, value);
    }

    /// Sets a key in nested tables. Takes the path in parts, since names of pools and accounts may
    /// contain dots.
    fn set_in(&mut self, tables: &[&str], key: &str, value: impl Into<Value>) {
        let mut table = &mut self.values;
        for name in tables {
            let inner = table.entry(*name).or_insert_with(|| Table::new().into());
            // Always a table: only this function creates them.
            let Value::Table(inner) = inner else { return };
            table = inner;
        }
        table.insert(key.to_owned(), value.into());
    }

    fn add_remark(&mut self, text: impl Into<String>) {
        self.remarks.push(text.into());
    }

    fn unknown(&mut self, section: &LmstfySection<'_>) {
        for key in section.unread() {
            self.add_remark(format!("{key} is ignored: lmstfy has no such key"));
        }
    }
}

fn listeners(file: &mut LmstfySection<'_>, found: &mut LmstfySettings) -> Result<(), String> {
    let host = file.required_text("Host")?;
    let port = file.required_port("Port")?;
    found.set("listen", address("Host", host, port)?.to_string());
    let admin_host = file.full_text("AdminHost")?;
    let admin_port = file.required_port("AdminPort")?;
    let admin = address("AdminHost", admin_host.unwrap_or(ADMIN_HOST), admin_port)?;
    found.set("admin_listen", admin.to_string());
    Ok(())
}

/// Resolves a host, which may be a name. Prefers IPv4.
fn address(key: &str, host: &str, port: u16) -> Result<SocketAddr, String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok((ip, port).into());
    }
    let mut addresses: Vec<SocketAddr> = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("{key}: cannot resolve {host:?}: {error}"))?
        .collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let first = addresses.into_iter().next();
    first.ok_or_else(|| format!("{key}: {host:?} has no address"))
}

fn logs(file: &mut LmstfySection<'_>, found: &mut LmstfySettings) -> Result<(), String> {
    if let Some(level) = file.full_text("LogLevel")? {
        let ours = match level.to_lowercase().as_str() {
            level @ ("trace" | "debug" | "info" | "warn" | "error") => level.to_owned(),
            "warning" => "warn".to_owned(),
            "fatal" | "panic" => "error".to_owned(),
            _ => {
                return Err(format!(
                    "LogLevel must be trace, debug, info, warn, error, fatal or panic, not {level:?}"
                ));
            }
        };
        found.set("log.level", ours);
    }
    if let Some(format) = file.text("LogFormat")? {
        let is_json = format.eq_ignore_ascii_case("json");
        if !is_json && !format.is_empty() && !format.eq_ignore_ascii_case("text") {
            found.add_remark(format!("LogFormat {format:?} is unknown: using text"));
        }
        found.set("log.format", if is_json { "json" } else { "text" });
    }
    if let Some(directory) = file.text("LogDir")? {
        found.set("log.directory", directory);
    }
    if let Some(is_on) = file.flag("EnableAccessLog")? {
        found.set("log.access", is_on);
    }
    Ok(())
}

fn accounts(file: &mut LmstfySection<'_>, found: &mut LmstfySettings) -> Result<(), String> {
    let Some(accounts) = file.table("Accounts")? else {
        return Ok(());
    };
    for (name, password) in accounts {
        // Checked here, because later errors would show a number or a list, which is a secret.
        let Value::String(password) = password else {
            return Err(format!(
                "Accounts.{name} must be a text in quotes, the password"
            ));
        };
        found.set_in(&["accounts"], name, password.as_str());
    }
    Ok(())
}

fn job(file: &mut LmstfySection<'_>, found: &mut LmstfySettings) -> Result<(), String> {
    for (theirs, ours, max) in JOB_KEYS {
        if let Some(number) = file.number(theirs, max)? {
            found.set_in(&["job"], ours, i64::from(number));
        }
    }
    Ok(())
}

fn pools(file: &mut LmstfySection<'_>, found: &mut LmstfySettings) -> Result<(), String> {
    let Some(pools) = file.table("Pool")? else {
        return Err("the table [Pool.default] is missing".to_owned());
    };
    let mut default = None;
    for (name, value) in pools {
        let path = format!("Pool.{name}");
        let Value::Table(table) = value else {
            return Err(format!("{path} must be a table"));
        };
        let mut section = LmstfySection::new(&path, table)?;
        let server = RedisAddress::read(&mut section)?;
        redis(&path, &["pool", name], &mut section, &server, found)?;
        if name == "default" {
            default = Some(server);
        }
    }
    let Some(default) = default else {
        return Err("the table [Pool.default] is missing".to_owned());
    };
    if let Some(mut section) = file.section("AdminRedis")? {
        let server = RedisAddress::read(&mut section)?;
        // If they are the same, the default pool has the tokens anyway.
        if server != default {
            redis("AdminRedis", &["admin_store"], &mut section, &server, found)?;
        }
    }
    Ok(())
}

/// The server and database of a section.
#[derive(Debug, PartialEq)]
struct RedisAddress<'a> {
    address: Option<&'a str>,
    master_name: Option<&'a str>,
    database: u32,
}

impl<'a> RedisAddress<'a> {
    fn read(section: &mut LmstfySection<'a>) -> Result<Self, String> {
        Ok(Self {
            address: section.full_text("Addr")?,
            master_name: section.full_text("MasterName")?,
            database: section.number("DB", u32::MAX)?.unwrap_or(0),
        })
    }
}

/// Translates a Redis section into the table at the path `tables`.
fn redis(
    path: &str,
    tables: &[&str],
    section: &mut LmstfySection<'_>,
    server: &RedisAddress<'_>,
    found: &mut LmstfySettings,
) -> Result<(), String> {
    let mut set = |key: &str, value: Value| found.set_in(tables, key, value);
    let Some(address) = server.address else {
        return Err(section.missing_error("Addr"));
    };
    match server.master_name {
        Some(master_name) => {
            let sentinels = address.split(',').map(str::trim);
            let sentinels = sentinels.filter(|sentinel| !sentinel.is_empty());
            set("sentinels", sentinels.collect::<Vec<_>>().into());
            set("master_name", master_name.into());
        }
        None => set("url", format!("redis://{address}").into()),
    }
    if server.database != 0 {
        set("database", i64::from(server.database).into());
    }
    for (theirs, ours) in [
        ("Password", "password"),
        ("SentinelPassword", "sentinel_password"),
        ("MigrateTo", "migrate_to"),
    ] {
        if let Some(text) = section.full_text(theirs)? {
            set(ours, text.into());
        }
    }
    if section.number("PoolSize", u32::MAX)?.is_some() {
        found.add_remark(format!(
            "{path}.PoolSize is ignored: one connection carries all calls"
        ));
    }
    if section.full_text("Version")?.is_some() {
        found.add_remark(format!(
            "{path}.Version is ignored: lmstfy skips such a pool, here it is used"
        ));
    }
    found.unknown(section);
    Ok(())
}

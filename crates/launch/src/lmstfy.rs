//! Configuration files of lmstfy: what they say under our names, and what of them is not used.

mod section;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use tidegate_service::parse_toml;
use toml::{Table, Value};

use section::Section;

/// What lmstfy listens on for administrators if its file does not say.
const ADMIN_HOST: &str = "127.0.0.1";

/// Its names for the job settings, ours, and the largest value.
const JOB_KEYS: [(&str, &str, u32); 5] = [
    ("TTLSecond", "ttl_seconds", u32::MAX),
    ("DelaySecond", "delay_seconds", u32::MAX),
    ("TriesNum", "tries", u16::MAX as u32),
    ("TTRSecond", "ttr_seconds", u32::MAX),
    ("TimeoutSecond", "timeout_seconds", u32::MAX),
];

/// What a file says. It may hold secrets, so it cannot be shown.
#[derive(Default)]
pub(crate) struct Translated {
    /// The settings under our names.
    pub(crate) values: Table,
    /// What is not used, and why: a sentence each.
    pub(crate) remarks: Vec<String>,
}

/// Reads a file of lmstfy.
///
/// # Errors
/// One sentence that names the key: what is no TOML, of the wrong type, missing or impossible.
pub(crate) fn translate(text: &str) -> Result<Translated, String> {
    let file = parse_toml(text)?;
    let mut file = Section::new("", &file)?;
    let mut found = Translated::default();
    listeners(&mut file, &mut found)?;
    logs(&mut file, &mut found)?;
    accounts(&mut file, &mut found)?;
    job(&mut file, &mut found)?;
    pools(&mut file, &mut found)?;
    found.unknown(&file);
    Ok(found)
}

impl Translated {
    /// What is meant for one daemon: these keys, and the tables of these names.
    pub(crate) fn only(mut self, keys: &[&str], program: &str) -> Self {
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
            self.remark(format!(
                "not used by {program}: what it says about {unused}"
            ));
        }
        self
    }

    /// Sets a key, which may have dots between its parts.
    fn set(&mut self, key: &str, value: impl Into<Value>) {
        let (tables, key) = key.rsplit_once('.').unwrap_or(("", key));
        let tables: Vec<&str> = tables.split('.').filter(|part| !part.is_empty()).collect();
        self.set_in(&tables, key, value);
    }

    /// Sets a key in a table of a table. Names of pools and accounts may have dots.
    fn set_in(&mut self, tables: &[&str], key: &str, value: impl Into<Value>) {
        let mut table = &mut self.values;
        for name in tables {
            let inner = table.entry(*name).or_insert_with(|| Table::new().into());
            // They are all made here.
            let Value::Table(inner) = inner else { return };
            table = inner;
        }
        table.insert(key.to_owned(), value.into());
    }

    fn remark(&mut self, text: impl Into<String>) {
        self.remarks.push(text.into());
    }

    fn unknown(&mut self, section: &Section<'_>) {
        for key in section.unread() {
            self.remark(format!("{key} is ignored: lmstfy has no such key"));
        }
    }
}

fn listeners(file: &mut Section<'_>, found: &mut Translated) -> Result<(), String> {
    let host = file.required_text("Host")?;
    let port = file.required_port("Port")?;
    found.set("listen", address("Host", host, port)?.to_string());
    let admin_host = file.text("AdminHost")?.filter(|host| !host.is_empty());
    let admin_port = file.required_port("AdminPort")?;
    let admin = address("AdminHost", admin_host.unwrap_or(ADMIN_HOST), admin_port)?;
    found.set("admin_listen", admin.to_string());
    Ok(())
}

/// The address of a host, which may be a name.
fn address(key: &str, host: &str, port: u16) -> Result<SocketAddr, String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok((ip, port).into());
    }
    let mut addresses: Vec<SocketAddr> = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("{key}: {host:?} is no address of this machine: {error}"))?
        .collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let first = addresses.into_iter().next();
    first.ok_or_else(|| format!("{key}: {host:?} is no address of this machine"))
}

fn logs(file: &mut Section<'_>, found: &mut Translated) -> Result<(), String> {
    if let Some(level) = file.text("LogLevel")?.filter(|level| !level.is_empty()) {
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
            found.remark(format!("LogFormat is text: there is no {format:?}"));
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

fn accounts(file: &mut Section<'_>, found: &mut Translated) -> Result<(), String> {
    let Some(accounts) = file.table("Accounts")? else {
        return Ok(());
    };
    for (name, password) in accounts {
        // A number or a list would be shown if the type were said any later.
        let Value::String(password) = password else {
            return Err(format!("Accounts.{name} must be a text: its password"));
        };
        found.set_in(&["accounts"], name, password.as_str());
    }
    Ok(())
}

fn job(file: &mut Section<'_>, found: &mut Translated) -> Result<(), String> {
    for (theirs, ours, max) in JOB_KEYS {
        if let Some(number) = file.number(theirs, max)? {
            found.set_in(&["job"], ours, i64::from(number));
        }
    }
    Ok(())
}

fn pools(file: &mut Section<'_>, found: &mut Translated) -> Result<(), String> {
    let Some(pools) = file.table("Pool")? else {
        return Err("there must be a table [Pool.default]".to_owned());
    };
    let mut default = None;
    for (name, value) in pools {
        let path = format!("Pool.{name}");
        let Value::Table(table) = value else {
            return Err(format!("{path} must be a table"));
        };
        let mut section = Section::new(&path, table)?;
        let server = Server::read(&mut section)?;
        redis(&path, &["pool", name], &mut section, &server, found)?;
        if name == "default" {
            default = Some(server);
        }
    }
    let Some(default) = default else {
        return Err("there must be a table [Pool.default]".to_owned());
    };
    if let Some(mut section) = file.section("AdminRedis")? {
        let server = Server::read(&mut section)?;
        // Where they are the same, pool default keeps the tokens anyway.
        if server != default {
            redis("AdminRedis", &["admin_store"], &mut section, &server, found)?;
        }
    }
    Ok(())
}

/// Which data a section of lmstfy's file is about.
#[derive(Debug, PartialEq)]
struct Server<'a> {
    address: Option<&'a str>,
    master_name: Option<&'a str>,
    database: u32,
}

impl<'a> Server<'a> {
    fn read(section: &mut Section<'a>) -> Result<Self, String> {
        let full = |text: Option<&'a str>| text.filter(|text| !text.is_empty());
        Ok(Self {
            address: full(section.text("Addr")?),
            master_name: full(section.text("MasterName")?),
            database: section.number("DB", u32::MAX)?.unwrap_or(0),
        })
    }
}

/// A Redis deployment, into the table of ours that is named by `tables`.
fn redis(
    path: &str,
    tables: &[&str],
    section: &mut Section<'_>,
    server: &Server<'_>,
    found: &mut Translated,
) -> Result<(), String> {
    let mut set = |key: &str, value: Value| found.set_in(tables, key, value);
    let Some(address) = server.address else {
        return Err(section.missing("Addr"));
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
        if let Some(text) = section.text(theirs)?.filter(|text| !text.is_empty()) {
            set(ours, text.into());
        }
    }
    if section.number("PoolSize", u32::MAX)?.is_some() {
        found.remark(format!(
            "{path}.PoolSize is ignored: one connection carries all calls"
        ));
    }
    if section
        .text("Version")?
        .is_some_and(|text| !text.is_empty())
    {
        found.remark(format!(
            "{path}.Version is ignored: lmstfy leaves such a pool out, here it is used"
        ));
    }
    found.unknown(section);
    Ok(())
}

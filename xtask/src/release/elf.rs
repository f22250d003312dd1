//! The requirements of a program for the machine that runs it.

use std::collections::BTreeSet;

use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader as _};
use object::{Architecture, Endianness, Object as _};

/// The prefix of the versions of glibc's symbols.
const GLIBC: &str = "GLIBC_";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MachineKind {
    /// As `uname -m` prints it.
    pub(crate) name: &'static str,
    /// As `dpkg --print-architecture` prints it.
    pub(crate) debian: &'static str,
    /// Rust's name.
    pub(crate) target: &'static str,
}

const MACHINES: [(Architecture, MachineKind); 2] = [
    (
        Architecture::X86_64,
        MachineKind {
            name: "x86_64",
            debian: "amd64",
            target: "x86_64-unknown-linux-gnu",
        },
    ),
    (
        Architecture::Aarch64,
        MachineKind {
            name: "aarch64",
            debian: "arm64",
            target: "aarch64-unknown-linux-gnu",
        },
    ),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProgramNeeds {
    pub(crate) machine: MachineKind,
    /// The names of the libraries that it is linked with.
    pub(crate) libraries: BTreeSet<String>,
    /// The oldest glibc that has all symbols: 2.34 is `[2, 34]`.
    pub(crate) glibc: Vec<u32>,
}

impl ProgramNeeds {
    /// Reads the program's headers.
    pub(crate) fn read(program: &[u8]) -> Result<Self, String> {
        let file = ElfFile64::<Endianness>::parse(program)
            .map_err(|error| format!("it is no program for 64-bit Linux: {error}"))?;
        let machine = MACHINES.iter().find(|(one, _)| *one == file.architecture());
        let (_, machine) =
            machine.ok_or_else(|| format!("no packages for {:?}", file.architecture()))?;
        let needs = Self::linked(file.elf_header(), program, *machine);
        needs.map_err(|error| error.to_string())
    }

    fn linked(
        header: &FileHeader64<Endianness>,
        program: &[u8],
        machine: MachineKind,
    ) -> object::Result<Self> {
        let endian = header.endian()?;
        let sections = header.sections(endian, program)?;
        let table = sections.dynamic_table(endian, program)?;
        let mut libraries = BTreeSet::new();
        for entry in table.iter().filter(|entry| entry.tag == DT_NEEDED) {
            libraries.insert(text(table.string(entry)?));
        }
        let mut glibc = Vec::new();
        if let Some((mut needs, link)) = sections.gnu_verneed(endian, program)? {
            let strings = sections.strings(endian, program, link)?;
            while let Some((_, mut versions)) = needs.next()? {
                while let Some(version) = versions.next()? {
                    let name = text(version.name(endian, strings)?);
                    glibc = glibc.max(glibc_version(&name).unwrap_or_default());
                }
            }
        }
        Ok(Self {
            machine,
            libraries,
            glibc,
        })
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Returns the numbers of `GLIBC_2.34`; `None` for versions of other libraries.
fn glibc_version(name: &str) -> Option<Vec<u32>> {
    let numbers = name.strip_prefix(GLIBC)?.split('.');
    numbers.map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let version = |name| glibc_version(name).unwrap();
        assert!(version("GLIBC_2.4") < version("GLIBC_2.34"));
        assert!(version("GLIBC_2.2.5") < version("GLIBC_2.3"));
        assert_eq!(glibc_version("GLIBC_PRIVATE"), None);
        assert_eq!(glibc_version("GCC_3.0"), None);
    }

    #[test]
    fn this_program_needs_glibc() {
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = ProgramNeeds::read(&this).unwrap();
        assert!(needs.libraries.contains("libc.so.6"), "{needs:?}");
        assert!(needs.glibc >= vec![2, 17], "{needs:?}");
        assert_eq!(needs.machine.name, std::env::consts::ARCH);
    }

    #[test]
    fn other_files_are_no_programs() {
        let error = ProgramNeeds::read(b"#!/bin/sh\n").unwrap_err();
        assert!(error.contains("no program"), "{error}");
    }
}

//! The archive: the same files give the same bytes.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use super::io::failed_at;
use super::release_file::ReleaseFile;

const FOLDER_MODE: u32 = 0o755;

/// A compressed archive, in which all files are in a folder with its name.
#[derive(Debug)]
pub(crate) struct ReleaseArchive {
    pub(crate) name: String,
    pub(crate) files: Vec<ReleaseFile>,
    /// The time of all files, in seconds since 1970.
    pub(crate) time: u64,
    pub(crate) compression: u32,
}

impl ReleaseArchive {
    /// Writes the archive into a folder and returns the name of its file.
    pub(crate) fn write(&self, folder: &Path) -> Result<String, String> {
        let name = format!("{}.tar.gz", self.name);
        let path = folder.join(&name);
        let file = File::create(&path).map_err(failed_at(&path))?;
        self.write_to(BufWriter::new(file))
            .map_err(failed_at(&path))?;
        Ok(name)
    }

    /// Entries are sorted, and belong to root. Neither tar nor gzip has the time of this run or the name of this
    /// machine.
    fn write_to(&self, out: impl Write) -> io::Result<()> {
        let compression = Compression::new(self.compression);
        let mut archive = Builder::new(GzBuilder::new().write(out, compression));
        for folder in self.folders() {
            let mut header = self.header(FOLDER_MODE, 0);
            header.set_entry_type(EntryType::Directory);
            archive.append_data(&mut header, format!("{folder}/"), io::empty())?;
        }
        let mut files: Vec<&ReleaseFile> = self.files.iter().collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        for file in files {
            let mut header = self.header(file.mode, file.content.len() as u64);
            header.set_entry_type(EntryType::Regular);
            let path = format!("{}/{}", self.name, file.path);
            archive.append_data(&mut header, path, &*file.content)?;
        }
        archive.into_inner()?.finish()?.flush()
    }

    fn header(&self, mode: u32, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_mode(mode);
        header.set_size(size);
        header.set_mtime(self.time);
        header.set_uid(0);
        header.set_gid(0);
        header
    }

    /// All folders, each behind its parent.
    fn folders(&self) -> BTreeSet<String> {
        let mut folders = BTreeSet::from([self.name.clone()]);
        for file in &self.files {
            let above = Path::new(&file.path).ancestors().skip(1);
            let above = above.filter(|path| !path.as_os_str().is_empty());
            folders.extend(above.map(|path| format!("{}/{}", self.name, path.display())));
        }
        folders
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let file = |(path, text): &(&str, &str)| ReleaseFile::readable(*path, text.as_bytes());
        let archive = ReleaseArchive {
            name: "one-1.0".to_owned(),
            files: files.iter().map(file).collect(),
            time: 1_700_000_000,
            compression: 6,
        };
        let mut bytes = Vec::new();
        archive.write_to(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_order_of_files_makes_no_difference() {
        let one = archive(&[("b/c", "second"), ("a", "first")]);
        assert_eq!(one, archive(&[("a", "first"), ("b/c", "second")]));
        assert_ne!(one, archive(&[("a", "first"), ("b/c", "other")]));
    }

    #[test]
    fn folders_come_before_files_and_all_belong_to_root() {
        let bytes = archive(&[("b/c/d", "text"), ("a", "")]);
        let mut read = tar::Archive::new(flate2::read::GzDecoder::new(&*bytes));
        let mut paths = Vec::new();
        for entry in read.entries().unwrap() {
            let mut entry = entry.unwrap();
            let header = entry.header();
            assert_eq!(header.uid().unwrap() + header.gid().unwrap(), 0);
            assert_eq!(header.mtime().unwrap(), 1_700_000_000);
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            paths.push((entry.path().unwrap().display().to_string(), text));
        }
        let expected = [
            ("one-1.0/", ""),
            ("one-1.0/b/", ""),
            ("one-1.0/b/c/", ""),
            ("one-1.0/a", ""),
            ("one-1.0/b/c/d", "text"),
        ];
        let expected = expected.map(|(path, text)| (path.to_owned(), text.to_owned()));
        assert_eq!(paths, expected);
    }
}

//! Reads the log of a slot, from its oldest line on, across rotations and while it is written.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::log::{FILES, LineBuffer, rotated};

/// A place in the log of a slot.
#[derive(Debug)]
pub struct LogReader {
    dir: PathBuf,
    open: Option<Open>,
    lines: LineBuffer,
}

#[derive(Debug)]
struct Open {
    file: File,
    inode: u64,
}

/// What came next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A line with its time in front, without the newline.
    Line(&'a [u8]),
    /// Lines are missing here: they were removed before they were read.
    Gap,
}

impl LogReader {
    /// Returns a reader at the oldest line of a log, which need not exist yet.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, open: None, lines: LineBuffer::default() }
    }

    /// Reads all lines that were written since the last call.
    pub fn read(&mut self, mut take: impl FnMut(Entry<'_>)) -> io::Result<()> {
        loop {
            let Some(open) = &mut self.open else {
                self.open = self.oldest()?;
                if self.open.is_none() {
                    return Ok(());
                }
                continue;
            };
            // Looked up before it is read: a file that was full by then gets no more lines.
            let number = locate(&self.dir, open.inode)?;
            let mut buffer = vec![0; 64 << 10];
            loop {
                let count = open.file.read(&mut buffer)?;
                if count == 0 {
                    break;
                }
                self.lines.push(&buffer[..count], |line| take(Entry::Line(line)));
            }
            match number {
                Some(0) => return Ok(()),
                Some(number) => match self.after(number)? {
                    Some(next) => {
                        // If the file was moved meanwhile, so was the one after it.
                        if locate(&self.dir, open_inode(self.open.as_ref()))? == Some(number) {
                            self.lines.finish(|line| take(Entry::Line(line)));
                            self.open = Some(next);
                        }
                    }
                    None => return Ok(()),
                },
                None => {
                    self.lines.finish(|line| take(Entry::Line(line)));
                    take(Entry::Gap);
                    self.open = self.oldest()?;
                    if self.open.is_none() {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn oldest(&self) -> io::Result<Option<Open>> {
        self.after(FILES)
    }

    /// Opens the file after one with this number. A crash may have left gaps in the numbers.
    fn after(&self, number: u32) -> io::Result<Option<Open>> {
        for number in (0..number).rev() {
            match File::open(rotated(&self.dir, number)) {
                Ok(file) => {
                    let inode = file.metadata()?.ino();
                    return Ok(Some(Open { file, inode }));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

fn open_inode(open: Option<&Open>) -> u64 {
    open.map_or(0, |open| open.inode)
}

/// Returns the number that a file has now; nothing if it was removed. Files only move to higher
/// numbers, so looking upwards does not miss one.
fn locate(dir: &Path, inode: u64) -> io::Result<Option<u32>> {
    for number in 0..FILES {
        match rotated(dir, number).metadata() {
            Ok(metadata) if metadata.ino() == inode => return Ok(Some(number)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Returns the time in front of a line.
pub fn time_of(line: &[u8]) -> Option<jiff::Timestamp> {
    let end = line.iter().position(|byte| *byte == b' ')?;
    std::str::from_utf8(&line[..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogFiles;

    fn read(reader: &mut LogReader) -> Vec<String> {
        let mut lines = Vec::new();
        reader
            .read(|entry| {
                lines.push(match entry {
                    Entry::Line(line) => {
                        assert!(time_of(line).is_some());
                        String::from_utf8_lossy(line).split_once(' ').unwrap().1.to_owned()
                    }
                    Entry::Gap => "GAP".to_owned(),
                });
            })
            .unwrap();
        lines
    }

    #[test]
    fn a_reader_follows_across_any_number_of_rotations() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogFiles::new(dir.path().into(), 1000);
        let mut reader = LogReader::new(dir.path().into());
        assert_eq!(read(&mut reader), Vec::<String>::new());
        let (mut written, mut seen) = (Vec::new(), Vec::new());
        // Some files get full between two looks, never all ten.
        for round in 0..40 {
            for n in 0..round * 3 {
                let line = format!("round {round} line {n}");
                log.write(line.as_bytes());
                written.push(line);
            }
            seen.extend(read(&mut reader));
        }
        assert_eq!(seen, written);
    }

    #[test]
    fn what_was_removed_before_it_was_read_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogFiles::new(dir.path().into(), 100);
        let mut reader = LogReader::new(dir.path().into());
        log.write(b"first");
        assert_eq!(read(&mut reader), ["first"]);
        (0..100).for_each(|n| log.write(format!("line {n}").as_bytes()));
        let seen = read(&mut reader);
        // What was written to the file that is open is still there.
        assert_eq!(seen[..3], ["line 0", "line 1", "GAP"]);
        assert_eq!(seen.last().unwrap(), "line 99");
    }

    #[test]
    fn a_reader_beside_a_writer_sees_every_line_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let total = 3000;
        let (go, wait) = std::sync::mpsc::sync_channel::<()>(0);
        let writer = std::thread::spawn(move || {
            let mut log = LogFiles::new(path, 2000);
            for n in 0..total {
                log.write(format!("line {n}").as_bytes());
                // The reader is never ten files behind.
                if n % 100 == 99 {
                    wait.recv().unwrap();
                }
            }
        });
        let mut reader = LogReader::new(dir.path().into());
        let mut seen = Vec::new();
        while seen.len() < total {
            let before = seen.len() / 100;
            seen.extend(read(&mut reader));
            for _ in before..seen.len() / 100 {
                go.send(()).unwrap();
            }
        }
        writer.join().unwrap();
        assert_eq!(seen, (0..total).map(|n| format!("line {n}")).collect::<Vec<_>>());
    }
}

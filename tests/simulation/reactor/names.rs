//! Directories: which names there are, and which of them survive a power cut. Knows files by number.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Component, Path};

use crate::disk::{FileId, Survival};
use crate::random::Random;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A file.
    File(FileId),
    /// A directory, by its number.
    Directory(usize),
}

#[derive(Clone, Debug)]
enum Change {
    Set(String, Node),
    Remove(String),
    Rename(String, String),
}

#[derive(Debug, Default)]
struct Directory {
    visible: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    changes: VecDeque<Change>,
}

/// All directories.
#[derive(Debug)]
pub struct Names {
    /// The first is the root.
    directories: Vec<Directory>,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            directories: vec![Directory::default()],
        }
    }
}

impl Names {
    /// What a path names.
    pub fn find(&self, path: &Path) -> io::Result<Node> {
        let mut node = Node::Directory(0);
        for name in components(path) {
            let Node::Directory(directory) = node else {
                return Err(io::ErrorKind::NotADirectory.into());
            };
            let found = self.directories[directory].visible.get(name);
            node = *found.ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    /// The file that a path names.
    pub fn file(&self, path: &Path) -> io::Result<FileId> {
        match self.find(path)? {
            Node::File(file) => Ok(file),
            Node::Directory(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    /// All files that have a name.
    pub fn files(&self) -> Vec<FileId> {
        let nodes = self.directories.iter().flat_map(|it| it.visible.values());
        let file = |node: &Node| match node {
            Node::File(file) => Some(*file),
            Node::Directory(_) => None,
        };
        nodes.filter_map(file).collect()
    }

    fn directory(&self, path: &Path) -> io::Result<usize> {
        match self.find(path)? {
            Node::Directory(directory) => Ok(directory),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Names and what they stand for, in their order.
    pub fn list(&self, path: &Path) -> io::Result<Vec<(String, Node)>> {
        let directory = self.directory(path)?;
        let entries = self.directories[directory].visible.iter();
        Ok(entries.map(|(name, node)| (name.clone(), *node)).collect())
    }

    fn parent<'a>(&self, path: &'a Path) -> io::Result<(usize, &'a str)> {
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let name = path.file_name().and_then(|name| name.to_str());
        Ok((
            self.directory(parent)?,
            name.ok_or(io::ErrorKind::InvalidInput)?,
        ))
    }

    fn change(&mut self, directory: usize, change: Change) {
        let directory = &mut self.directories[directory];
        change.apply(&mut directory.visible);
        directory.changes.push_back(change);
    }

    /// Names a file that was made.
    pub fn set(&mut self, path: &Path, file: FileId) -> io::Result<()> {
        let (directory, name) = self.parent(path)?;
        self.change(directory, Change::Set(name.to_owned(), Node::File(file)));
        Ok(())
    }

    /// Makes a directory.
    pub fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        if self.find(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (directory, name) = self.parent(path)?;
        let made = Node::Directory(self.directories.len());
        self.directories.push(Directory::default());
        self.change(directory, Change::Set(name.to_owned(), made));
        Ok(())
    }

    /// Removes a name, of a directory only if it is empty.
    pub fn remove(&mut self, path: &Path) -> io::Result<()> {
        if let Node::Directory(directory) = self.find(path)?
            && !self.directories[directory].visible.is_empty()
        {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let (directory, name) = self.parent(path)?;
        self.change(directory, Change::Remove(name.to_owned()));
        Ok(())
    }

    /// Renames within a directory; what had the new name is gone.
    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.find(from)?;
        let (directory, old) = self.parent(from)?;
        let (other, new) = self.parent(to)?;
        if directory != other {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        self.change(directory, Change::Rename(old.to_owned(), new.to_owned()));
        Ok(())
    }

    /// Makes a directory's entries durable.
    pub fn flush(&mut self, path: &Path) -> io::Result<()> {
        let directory = self.directory(path)?;
        let directory = &mut self.directories[directory];
        directory.durable.clone_from(&directory.visible);
        directory.changes.clear();
        Ok(())
    }

    /// The power goes: of each directory's changes the first few are left.
    pub fn power_cut(&mut self, survival: Survival, random: &mut Random) {
        for directory in &mut self.directories {
            let changes = std::mem::take(&mut directory.changes);
            let left = match survival {
                Survival::Nothing => 0,
                Survival::All => changes.len(),
                Survival::Some => random.below(changes.len() as u64 + 1) as usize,
            };
            for change in changes.into_iter().take(left) {
                change.apply(&mut directory.durable);
            }
            directory.visible.clone_from(&directory.durable);
        }
    }
}

impl Change {
    fn apply(&self, entries: &mut BTreeMap<String, Node>) {
        match self {
            Self::Set(name, node) => {
                entries.insert(name.clone(), *node);
            }
            Self::Remove(name) => {
                entries.remove(name);
            }
            Self::Rename(from, to) => {
                if let Some(node) = entries.remove(from) {
                    entries.insert(to.clone(), node);
                }
            }
        }
    }
}

fn components(path: &Path) -> impl Iterator<Item = &str> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    })
}

//! Memory between two inaccessible pages, so that an access outside of an array ends the process
//! instead of reading or overwriting its neighbours. The differential tester gives generated code
//! nothing else.
//!
//! It is a crate of its own because it is the only unsafe part of the tests.

/// The page that the bytes touch. Up to a page lies between them and the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// They begin behind one.
    Front,
    /// They end before one.
    Back,
}

/// Bytes between such pages.
#[derive(Debug)]
pub struct Guarded(memory::Memory);

impl Guarded {
    /// A copy of some bytes; `None` if there is no memory.
    pub fn of(bytes: &[u8], edge: Edge) -> Option<Guarded> {
        let mut own = memory::Memory::new(bytes.len(), edge)?;
        own.bytes_mut().copy_from_slice(bytes);
        Some(Guarded(own))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// The bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

#[cfg(unix)]
mod memory {
    use super::Edge;

    /// Pages from the system. `first` is the address of the bytes.
    #[derive(Debug)]
    pub struct Memory {
        mapped: *mut libc::c_void,
        all: usize,
        first: *mut u8,
        length: usize,
    }

    impl Memory {
        pub fn new(length: usize, edge: Edge) -> Option<Memory> {
            // SAFETY: it only asks.
            let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
            let inner = length.max(1).checked_next_multiple_of(page)?;
            let all = inner.checked_add(2 * page)?;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: a fresh mapping anywhere, which touches no other memory.
            let mapped = unsafe { libc::mmap(std::ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0) };
            if mapped == libc::MAP_FAILED {
                return None;
            }
            let from = mapped.wrapping_byte_add(page);
            // An empty array lies where no byte may be touched.
            let is_back = edge == Edge::Back || length == 0;
            let first = from.cast::<u8>().wrapping_add(if is_back { inner - length } else { 0 });
            let memory = Memory { mapped, all, first, length };
            // SAFETY: `from..from + inner` are whole pages of the mapping above.
            let granted = unsafe { libc::mprotect(from, inner, libc::PROT_READ | libc::PROT_WRITE) };
            (granted == 0).then_some(memory)
        }

        pub fn bytes(&self) -> &[u8] {
            // SAFETY: `first..first + length` lies in pages that may be read, which live as long as
            // `self` and are zero or what was written.
            unsafe { std::slice::from_raw_parts(self.first, self.length) }
        }

        pub fn bytes_mut(&mut self) -> &mut [u8] {
            // SAFETY: as above; they may be written, and `self` is borrowed alone.
            unsafe { std::slice::from_raw_parts_mut(self.first, self.length) }
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: the mapping is this one's alone, and no reference to it is left.
            unsafe { libc::munmap(self.mapped, self.all) };
        }
    }
}

/// Plain memory, on systems without such pages.
#[cfg(not(unix))]
mod memory {
    use super::Edge;

    #[derive(Debug)]
    pub struct Memory(Vec<u8>);

    impl Memory {
        pub fn new(length: usize, _: Edge) -> Option<Memory> {
            Some(Memory(vec![0; length]))
        }

        pub fn bytes(&self) -> &[u8] {
            &self.0
        }

        pub fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Edge, Guarded};

    #[test]
    fn holds_its_bytes() {
        for edge in [Edge::Front, Edge::Back] {
            for length in [0, 1, 4095, 4096, 4097, 100_000] {
                let bytes: Vec<u8> = (0..length).map(|k| (k % 251) as u8).collect();
                let mut guarded = Guarded::of(&bytes, edge).expect("memory");
                assert_eq!(guarded.bytes(), bytes);
                guarded.bytes_mut().fill(7);
                assert!(guarded.bytes().iter().all(|byte| *byte == 7));
            }
        }
    }

    /// A stray read ends the process. This test calls itself again in a process of its own.
    #[test]
    #[cfg(unix)]
    fn a_stray_read_ends_the_process() {
        use std::os::unix::process::ExitStatusExt;

        const ASKED: &str = "GUARDED_STRAY_READ";
        if std::env::var_os(ASKED).is_some() {
            let guarded = Guarded::of(&[1; 100], Edge::Back).expect("memory");
            let past = guarded.bytes().as_ptr().wrapping_add(100);
            // SAFETY: there is none. It is the point of this process to end here.
            println!("{}", unsafe { past.read_volatile() });
            return;
        }
        let own = std::env::current_exe().expect("a test has a program");
        let mut again = Command::new(own);
        again.args(["--exact", "tests::a_stray_read_ends_the_process"]).env(ASKED, "1");
        let status = again.output().expect("it starts").status;
        assert!(matches!(status.signal(), Some(libc::SIGSEGV | libc::SIGBUS)), "{status}");
    }
}

//! An object file as assembly: the bytes of its sections, labels for its symbols, and directives
//! for its relocations. An assembler produces exactly the same code from it. Instructions are
//! written as bytes with the mnemonic in a comment, because assemblers choose among encodings and
//! older ones do not know the newer instructions.

use std::collections::BTreeSet;
use std::fmt::Write;

use iced_x86::{Code, Decoder, DecoderOptions, Formatter, GasFormatter, Instruction};
use object::{
    Architecture, File, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, Section, SectionFlags,
    Symbol, SymbolKind, elf,
};

use crate::error::{CompileError, internal};

/// The number of data bytes per line.
const ON_A_LINE: usize = 16;

/// The relocations that Cranelift emits, by their names in ELF.
const X86_64: &[(u32, &str)] = &[
    (elf::R_X86_64_64, "R_X86_64_64"),
    (elf::R_X86_64_PC32, "R_X86_64_PC32"),
    (elf::R_X86_64_PLT32, "R_X86_64_PLT32"),
    (elf::R_X86_64_GOTPCREL, "R_X86_64_GOTPCREL"),
    (elf::R_X86_64_GOTPCRELX, "R_X86_64_GOTPCRELX"),
    (elf::R_X86_64_REX_GOTPCRELX, "R_X86_64_REX_GOTPCRELX"),
];
const AARCH64: &[(u32, &str)] = &[
    (elf::R_AARCH64_ABS64, "R_AARCH64_ABS64"),
    (elf::R_AARCH64_ADR_PREL_PG_HI21, "R_AARCH64_ADR_PREL_PG_HI21"),
    (elf::R_AARCH64_ADD_ABS_LO12_NC, "R_AARCH64_ADD_ABS_LO12_NC"),
    (elf::R_AARCH64_CALL26, "R_AARCH64_CALL26"),
    (elf::R_AARCH64_ADR_GOT_PAGE, "R_AARCH64_ADR_GOT_PAGE"),
    (elf::R_AARCH64_LD64_GOT_LO12_NC, "R_AARCH64_LD64_GOT_LO12_NC"),
];

/// The assembly of an object file that this module made.
pub(super) fn assembly(bytes: &[u8]) -> Result<String, CompileError> {
    let file = File::parse(bytes).map_err(|e| internal(&e))?;
    let mut out = String::new();
    for (number, section) in file.sections().enumerate() {
        let SectionFlags::Elf { sh_flags } = section.flags() else { continue };
        let name = section.name().map_err(|e| internal(&e))?;
        if sh_flags & u64::from(elf::SHF_ALLOC) != 0 {
            write_section(&mut out, &file, &section, name, sh_flags, number)?;
        } else if name == ".note.GNU-stack" {
            out += "\n\t.section .note.GNU-stack,\"\",%progbits\n";
        }
    }
    Ok(out)
}

/// Writes a section: its symbols and relocations, with the bytes between them.
fn write_section(
    out: &mut String,
    file: &File<'_>,
    section: &Section<'_, '_>,
    name: &str,
    sh_flags: u64,
    number: usize,
) -> Result<(), CompileError> {
    let data = section.data().map_err(|e| internal(&e))?;
    let flags = [(elf::SHF_ALLOC, 'a'), (elf::SHF_WRITE, 'w'), (elf::SHF_EXECINSTR, 'x')];
    let flags: String = flags.iter().filter(|(flag, _)| sh_flags & u64::from(*flag) != 0).map(|(_, c)| *c).collect();
    let executes = sh_flags & u64::from(elf::SHF_EXECINSTR) != 0;
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "\n\t.section {name},\"{flags}\",%progbits\n\t.balign {}\n.Lsection{number}:",
        section.align().max(1)
    );
    let in_section = |s: &Symbol<'_, '_>| s.section_index() == Some(section.index()) && s.kind() != SymbolKind::Section;
    let mut symbols: Vec<Symbol<'_, '_>> = file.symbols().filter(in_section).collect();
    symbols.sort_by_key(|symbol| symbol.address());
    let related: BTreeSet<usize> = section.relocations().map(|(at, _)| at as usize).collect();
    let mut at = 0;
    for symbol in &symbols {
        let (start, size) = (symbol.address() as usize, symbol.size() as usize);
        let body = data.get(start..start + size).ok_or_else(|| internal(&"a symbol is outside of its section"))?;
        bytes(out, data.get(at..start).unwrap_or_default());
        let name = quoted(symbol.name().map_err(|e| internal(&e))?);
        if symbol.is_global() {
            let _ = writeln!(out, "\n\t.globl {name}");
        }
        let kind = if executes { "function" } else { "object" };
        let _ = writeln!(out, "\t.type {name}, %{kind}\n{name}:");
        match (executes, file.architecture()) {
            (true, Architecture::X86_64) => instructions(out, body, start, &related),
            (true, _) => words(out, body),
            (false, _) => bytes(out, body),
        }
        let _ = writeln!(out, "\t.size {name}, {size}");
        at = start + size;
    }
    bytes(out, data.get(at..).unwrap_or_default());
    for (at, relocation) in section.relocations() {
        let RelocationTarget::Symbol(target) = relocation.target() else { continue };
        let target = file.symbol_by_index(target).map_err(|e| internal(&e))?;
        let table = if file.architecture() == Architecture::X86_64 { X86_64 } else { AARCH64 };
        let known = |ty: u32| table.iter().find(|(known, _)| *known == ty).map(|(_, name)| *name);
        let ty = match relocation.flags() {
            RelocationFlags::Elf { r_type } => known(r_type),
            _ => None,
        };
        let ty = ty.ok_or_else(|| internal(&"a relocation without a name"))?;
        let target = quoted(target.name().map_err(|e| internal(&e))?);
        let addend = relocation.addend();
        let _ = writeln!(out, "\t.reloc .Lsection{number}+{at}, {ty}, {target}{addend:+}");
    }
    Ok(())
}

/// A name, quoted for the assembler.
fn quoted(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
    if plain { name.to_owned() } else { format!("\"{name}\"") }
}

/// Writes data.
fn bytes(out: &mut String, data: &[u8]) {
    for line in data.chunks(ON_A_LINE) {
        let _ = writeln!(out, "\t.byte {}", listed(line));
    }
}

fn listed(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("0x{byte:02x}")).collect::<Vec<_>>().join(",")
}

/// Writes code that consists of 32-bit instruction words.
fn words(out: &mut String, code: &[u8]) {
    let (words, rest) = code.as_chunks::<4>();
    for word in words {
        let _ = writeln!(out, "\t.inst 0x{:08x}", u32::from_le_bytes(*word));
    }
    bytes(out, rest);
}

/// Writes x86-64 code, one instruction per line, then the constant pool behind it. The pool begins
/// at the first address that an instruction without a relocation refers to.
fn instructions(out: &mut String, code: &[u8], address: usize, related: &BTreeSet<usize>) {
    let mut decoder = Decoder::with_ip(64, code, address as u64, DecoderOptions::NONE);
    let mut formatter = GasFormatter::new();
    let mut instruction = Instruction::default();
    let mut end = code.len();
    while decoder.can_decode() && decoder.position() < end {
        let start = decoder.position();
        decoder.decode_out(&mut instruction);
        let stop = decoder.position();
        let own = related.range(address + start..address + stop).next().is_none();
        if instruction.is_ip_rel_memory_operand() && own {
            let constant =
                usize::try_from(instruction.ip_rel_memory_address()).ok().and_then(|at| at.checked_sub(address));
            end = constant.filter(|at| *at >= stop).map_or(end, |at| at.min(end));
        }
        let mut text = String::new();
        if instruction.code() != Code::INVALID {
            formatter.format(&instruction, &mut text);
        }
        let _ = writeln!(out, "\t.byte {:<56} # {text}", listed(&code[start..stop]));
    }
    bytes(out, &code[decoder.position().min(code.len())..]);
}

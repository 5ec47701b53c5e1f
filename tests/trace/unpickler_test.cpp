// SPDX-License-Identifier: Apache-2.0
#include "trace/unpickler.hpp"

#include "trace/trace_files.hpp"

namespace quarry::test {
namespace {

using namespace std::string_literals;
using trace::pickled;
using trace::unpickler;

/// The value as Python prints it, roughly. A tuple or a set looks as a list.
std::string shown(pickled const& value) {
  switch (value.type()) {
    case pickled::kind::none:
      return "None";
    case pickled::kind::boolean:
      return "bool";
    case pickled::kind::integer:
      return std::to_string(value.integer());
    case pickled::kind::natural:
      return std::to_string(value.natural());
    case pickled::kind::real:
      return "real";
    case pickled::kind::string:
      return "'" + std::string{value.text()} + "'";
    default:
      break;
  }
  bool const is_dict = value.type() == pickled::kind::dict;
  std::string result = is_dict ? "{" : "[";
  auto const& items = value.items();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i != 0) result += is_dict && i % 2 == 1 ? ":" : ",";
    result += shown(items[i]);
  }
  return result + (is_dict ? "}" : "]");
}

/// Runs a pickle twice, and expects the same of both runs. Returns its value as text. The streamed
/// elements come first: INDEX<elements>.
std::string unpickled(std::string const& bytes) {
  temporary_file const file{bytes};
  trace::byte_source source{file.path()};
  unpickler machine{source, "streamed"};
  std::string results[2];
  for (std::string& result : results) {
    std::vector<pickled> elements;
    while (machine.next(elements)) {
      result += std::to_string(machine.list_index()) + "<";
      for (auto const& each : elements) result += shown(each) + ";";
      result += ">";
    }
    result += shown(machine.value());
    machine.restart();
  }
  EXPECT_EQ(results[0], results[1]);
  return results[0];
}

/// Why a pickle is refused: the message without the name of the file; empty if it is not.
std::string refusal_of(std::string const& bytes) {
  std::string const text = message_of([&] { (void)unpickled(bytes); });
  auto const comma = text.find(", ");
  return comma == std::string::npos ? text : text.substr(comma + 2);
}

TEST(Unpickler, BuildsTheValueOfEachOpcode) {
  EXPECT_EQ(unpickled("N."), "None");
  EXPECT_EQ(unpickled("\x88."), "bool");
  EXPECT_EQ(unpickled("\x89."), "bool");
  EXPECT_EQ(unpickled("K\xff."), "255");
  EXPECT_EQ(unpickled("M\x01\xff."), "65281");
  EXPECT_EQ(unpickled("J\xfe\xff\xff\xff."), "-2");
  EXPECT_EQ(unpickled("J\x00\x00\x00\x80."s), "-2147483648");
  EXPECT_EQ(unpickled("G\x40\x09\x21\xfb\x54\x44\x2d\x18."), "real");
  EXPECT_EQ(unpickled("X\3\0\0\0abc."s), "'abc'");
  EXPECT_EQ(unpickled("\x8c\3abc."), "'abc'");
  EXPECT_EQ(unpickled("\x8d\3\0\0\0\0\0\0\0abc."s), "'abc'");
  EXPECT_EQ(unpickled("B\3\0\0\0abc."s), "'abc'");
  EXPECT_EQ(unpickled("C\3abc."), "'abc'");
  EXPECT_EQ(unpickled("\x8e\3\0\0\0\0\0\0\0abc."s), "'abc'");
  EXPECT_EQ(unpickled("]."), "[]");
  EXPECT_EQ(unpickled(")."), "[]");
  EXPECT_EQ(unpickled("}."), "{}");
  EXPECT_EQ(unpickled("\x8f."), "[]");
  EXPECT_EQ(unpickled("]Na."), "[None]");
  EXPECT_EQ(unpickled("](NK\1e."), "[None,1]");
  EXPECT_EQ(unpickled("(K\1K\2K\3K\4t."), "[1,2,3,4]");
  EXPECT_EQ(unpickled("K\1\x85."), "[1]");
  EXPECT_EQ(unpickled("K\1K\2\x86."), "[1,2]");
  EXPECT_EQ(unpickled("K\1K\2K\3\x87."), "[1,2,3]");
  EXPECT_EQ(unpickled("}\x8c\1kK\1s."), "{'k':1}");
  EXPECT_EQ(unpickled("}(\x8c\1kK\1K\2Nu."), "{'k':1,2:None}");
  EXPECT_EQ(unpickled("\x8f(K\1K\2\x90."), "[1,2]");
  EXPECT_EQ(unpickled("(K\1\x91."), "[1]");
  EXPECT_EQ(unpickled("K\1K\2"
                      "0."),
            "1");
  EXPECT_EQ(unpickled("K\1(0."), "1");
  EXPECT_EQ(unpickled("K\1(K\2K\3"
                      "1."),
            "1");
  EXPECT_EQ(unpickled("K\7"
                      "2\x86."),
            "[7,7]");
  EXPECT_EQ(unpickled("K\5q\0"
                      "0h\0."s),
            "5");
  EXPECT_EQ(unpickled("K\5r\1\2\3\4"
                      "0j\1\2\3\4."),
            "5");
  EXPECT_EQ(unpickled("K\5\x94K\6\x94\x86h\1h\0\x87."s), "[[5,6],6,5]");
  EXPECT_EQ(unpickled("\x80\4\x95\2\0\0\0\0\0\0\0N."s), "None");
}

TEST(Unpickler, BuildsWhatPythonWrote) {
  // pickle.dumps([{'a': 1}, (2, 'bc'), True, -5, None], protocol) for protocols 2 to 5
  EXPECT_EQ(unpickled("\x80\x02]q\x00(}q\x01X\x01\x00\x00\x00"
                      "aq\x02K\x01sK\x02X\x02\x00\x00\x00"
                      "bcq\x03\x86q\x04\x88J\xfb\xff\xff\xffNe."s),
            "[{'a':1},[2,'bc'],bool,-5,None]");
  EXPECT_EQ(unpickled("\x80\x03]q\x00(}q\x01X\x01\x00\x00\x00"
                      "aq\x02K\x01sK\x02X\x02\x00\x00\x00"
                      "bcq\x03\x86q\x04\x88J\xfb\xff\xff\xffNe."s),
            "[{'a':1},[2,'bc'],bool,-5,None]");
  for (char const protocol : {'\4', '\5'}) {
    EXPECT_EQ(unpickled("\x80"s + protocol +
                        "\x95\x1e\0\0\0\0\0\0\0]\x94(}\x94\x8c\1a\x94K\1sK\2\x8c\2bc\x94\x86\x94"
                        "\x88J\xfb\xff\xff\xffNe."s),
              "[{'a':1},[2,'bc'],bool,-5,None]");
  }
}

TEST(Unpickler, KeepsIntegersOf64BitsAndTheNearestOfOthers) {
  EXPECT_EQ(unpickled("\x8a\0."s), "0");
  EXPECT_EQ(unpickled("\x8a\1\xff."), "-1");
  EXPECT_EQ(unpickled("\x8a\3\xff\xff\0."s), "65535");
  EXPECT_EQ(unpickled("\x8b\2\0\0\0\xff\x7f."s), "32767");
  EXPECT_EQ(unpickled("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."), "9223372036854775807");
  EXPECT_EQ(unpickled("\x8a\x08\0\0\0\0\0\0\0\x80."s), "-9223372036854775808");
  EXPECT_EQ(unpickled("\x8a\x09\0\0\xb7\xe5\xff\xff\xff\xff\0."s), "18446744073268559872");
  EXPECT_EQ(unpickled("\x8a\x09\0\0\0\0\0\0\0\0\1."s), "18446744073709551615");
  EXPECT_EQ(unpickled("\x8a\x09\0\0\0\0\0\0\0\0\xff."s), "-9223372036854775808");
  EXPECT_EQ(unpickled("\x8a\x0c\5\0\0\0\0\0\0\0\0\0\0\0."s), "5");
  EXPECT_EQ(unpickled("\x8a\x0c\xfb\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff."), "-5");
}

TEST(Pickled, ConvertsIntegersWithoutWrappingThem) {
  EXPECT_EQ(pickled{~std::uint64_t{0}}.integer(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(pickled{~std::uint64_t{0}}.natural(), ~std::uint64_t{0});
  EXPECT_EQ(pickled{std::int64_t{-3}}.natural(), 0u);
  EXPECT_EQ(pickled{std::uint64_t{7}}.integer(), 7);
  EXPECT_EQ(pickled{std::string_view{"7"}}.natural(), 0u);
}

TEST(Unpickler, RefusesOpcodesThatCallFunctionsOrBuildObjects) {
  // GLOBAL, STACK_GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, NEWOBJ_EX, PERSID, BINPERSID, EXT1,
  // EXT2, EXT4, NEXT_BUFFER, READONLY_BUFFER, BYTEARRAY8; and opcodes of protocols 0 and 1
  std::string const codes =
      "c\x93Rbio\x81\x92PQ\x82\x83\x84\x97\x98\x96"
      "ILFSVTUldgp";
  for (char const code : codes) {
    char text[8];
    (void)std::snprintf(text, sizeof text, "0x%02x", static_cast<unsigned char>(code));
    EXPECT_EQ(refusal_of("\x80\4NN"s + code + "os\nsystem\n."),
              "offset 4: opcode "s + text +
                  " is refused: this reader builds plain containers only, and no objects of "
                  "classes");
  }
}

TEST(Unpickler, RefusesEveryByteThatIsNoOpcodeOfPlainContainers) {
  int accepted = 0;
  for (int code = 0; code < 256; ++code) {
    std::string const text = refusal_of(std::string(1, static_cast<char>(code)));
    if (text.find(" is refused: this reader") == std::string::npos) ++accepted;
  }
  EXPECT_EQ(accepted, 41);
}

TEST(Unpickler, RefusesValuesAndMarksThatAreMissing) {
  EXPECT_EQ(refusal_of("."),
            "offset 0: an opcode needs 1 values, but the stack has 0 above the "
            "last mark");
  for (std::string const code : {"a", "s", "\x85", "\x86", "\x87", "q\1", "\x94", "2", "0"})
    EXPECT_NE(refusal_of(code + "."), "") << code;
  for (std::string const code : {"e", "u", "t", "\x90", "\x91", "1"})
    EXPECT_EQ(refusal_of("N" + code + "."), "offset 1: an opcode needs a mark, but there is none")
        << code;
  EXPECT_NE(refusal_of("(e."), "") << "a mark and no container";
}

/// These pickles take values from below a mark, so that the mark pointed behind the stack.
TEST(Unpickler, RefusesToTakeValuesFromBelowAMark) {
  for (std::string const bytes : {"]NNN(\x87t.",
                                  "]NNN(\x87"
                                  "e.",
                                  "]N(at.", "](N(ae.", "}NN(st.",
                                  "]NN(\x86"
                                  "e.",
                                  "N(.", "N(2.", "N(\x94."})
    EXPECT_NE(refusal_of(bytes).find("above the last mark"), std::string::npos) << bytes;
}

TEST(Unpickler, RefusesMemosThatAreNotSet) {
  EXPECT_EQ(refusal_of("h\7."), "offset 0: an opcode refers to memo 7, which is not set");
  EXPECT_EQ(refusal_of("h\1K\1q\1."), "offset 0: an opcode refers to memo 1, which is not set");
  EXPECT_EQ(refusal_of("Nq\5\x94."),
            "offset 3: the numbers of memos have gaps, so the next number is unknown");
  EXPECT_EQ(unpickled("K\5q\0K\6q\0K\7\x94h\0h\1\x86."s), "[6,7]") << "a memo may be set again";
}

TEST(Unpickler, RefusesContainersThatContainThemselves) {
  EXPECT_NE(refusal_of("]2a."), "");
  EXPECT_NE(refusal_of("]q\1h\1a."), "");
  EXPECT_NE(refusal_of("]q\1]q\2h\1ah\1h\2a."), "") << "through another container";
  EXPECT_NE(refusal_of("}q\1K\1h\1s."), "");
  EXPECT_NE(refusal_of("]\x94(h\0\x85\x94h\1e."s), "") << "in a tuple";
}

TEST(Unpickler, RefusesToChangeWhatIsNoContainer) {
  EXPECT_NE(refusal_of("NNa."), "");
  EXPECT_NE(refusal_of("K\1(K\2e."), "");
  EXPECT_NE(refusal_of("}K\1\x85"
                       "0(K\1K\2K\3u."),
            "")
      << "a key without a value";
}

TEST(Unpickler, BoundsTheDepthOfContainers) {
  auto const nested = [](std::size_t levels) {
    return std::string(levels, ']') + std::string(levels - 1, 'a') + ".";
  };
  EXPECT_EQ(refusal_of(nested(101)), "");
  EXPECT_NE(refusal_of(nested(102)).find("nested more than 100 levels"), std::string::npos);
  EXPECT_NE(refusal_of("N" + std::string(1'000'000, '\x85') + ".").find("nested more than"),
            std::string::npos);
}

TEST(Unpickler, RefusesHugeLengthsWithoutAllocatingThem) {
  EXPECT_EQ(refusal_of("\x8d\xff\xff\xff\xff\xff\xff\xff\x7f."),
            "offset 0: a string or an integer has 9223372036854775807 bytes, more than 67108864");
  EXPECT_EQ(refusal_of("X\xff\xff\xff\x03."s), "offset 0: the file ends inside the pickle");
  EXPECT_NE(refusal_of("\x8b\xff\xff\xff\xff."), "");
}

TEST(Unpickler, BoundsTheStack) {
  EXPECT_NE(refusal_of(std::string((4 << 20) + 1, 'N') + ".").find("are in no container"),
            std::string::npos);
  EXPECT_NE(refusal_of(std::string((4 << 20) + 1, '(') + ".").find("marks are open"),
            std::string::npos);
}

/// {'other': [7], 'streamed': [[{}, {'a': 1}], [], [5]], 'end': 1}
std::string const streamed_pickle =
    "\x80\4}\x94(\x8c\5other\x94]\x94K\7a\x8c\10streamed\x94]\x94(]\x94(}\x94}\x94\x8c\1a\x94K\1se]"
    "\x94]\x94K\5"
    "ae\x8c\3end\x94K\1u.";

TEST(Unpickler, StreamsTheListsUnderAKey) {
  EXPECT_EQ(unpickled(streamed_pickle),
            "0<{};{'a':1};>2<5;>{'other':[7],'streamed':[[],[],[]],'end':1}");
}

TEST(Unpickler, FindsTheLastOfEqualKeys) {
  temporary_file const file{"}(\x8c\1aK\1\x8c\1aK\2\x8c\1bNu."};
  trace::byte_source source{file.path()};
  unpickler machine{source, "streamed"};
  std::vector<pickled> elements;
  EXPECT_FALSE(machine.next(elements));
  ASSERT_NE(machine.value().find("a"), nullptr);
  EXPECT_EQ(machine.value().find("a")->integer(), 2);
  EXPECT_EQ(machine.value().find("c"), nullptr);
  EXPECT_EQ(machine.value().find("b")->find("a"), nullptr);
}

TEST(Unpickler, RefusesAPickleThatIsCutAtAnyByte) {
  for (std::size_t size = 0; size < streamed_pickle.size(); ++size) {
    EXPECT_NE(refusal_of(streamed_pickle.substr(0, size)).find("the file ends inside the pickle"),
              std::string::npos)
        << size;
  }
}

/// Any bytes end in a value or in a refusal. AddressSanitizer sees the rest.
TEST(Unpickler, SurvivesRandomMutations) {
  auto const seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  std::string const codes = "(.012NJKMG\x88\x89\x8a\x8c]ae)t\x85\x86\x87}su\x8f\x90\x91qhr\x94";
  for (int i = 0; i < 1500; ++i) {
    std::string bytes = streamed_pickle;
    for (auto left = 1 + random() % 8; left > 0; --left) {
      std::size_t const at = random() % bytes.size();
      char const code = codes[random() % codes.size()];
      switch (random() % 4) {
        case 0:
          bytes[at] = code;
          break;
        case 1:
          bytes.insert(at, 1, code);
          break;
        case 2:
          bytes.erase(at, 1);
          break;
        default:
          bytes[at] = static_cast<char>(random());
      }
    }
    (void)refusal_of(bytes);
  }
}

}  // namespace
}  // namespace quarry::test

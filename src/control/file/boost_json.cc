// Boost.JSON as a source: Debian 12 does not install the library of 1.81 beside its headers. Alone
// in its file, so that a program which has it from elsewhere does not link it twice.
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <boost/json/src.hpp>

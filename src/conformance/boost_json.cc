// The one place where Boost.JSON is compiled: as Debian's headers bring it, without its library.
#include <boost/json/src.hpp>
